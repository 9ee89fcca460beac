"""The session API: what `AsyncSession` does, for bots in any language.

A session's id is `{tenant}/{name}`; the tenant is the key's, so no request can name another one's.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from compactor.commands.sessions import read_page
from compactor.exceptions import ConfigurationError, SessionNotFoundError
from compactor.http.answers import answer, answer_of, shown
from compactor.http.authentication import Caller, caller
from compactor.http.bodies import StrictRoute, large
from compactor.http.configs import unbind_session
from compactor.http.openapi import answered
from compactor.http.problems import Problem, problem_of
from compactor.http.session_bodies import (
    NAME_PATTERN,
    CompactBody,
    Configured,
    EstimateBody,
    ForkBody,
    IdempotencyKey,
    Name,
    PinBody,
    PrepareBody,
    PushBody,
    RecallId,
    RecallToolBody,
    ReleaseBody,
    RewindBody,
    SyncBody,
    UndoBody,
)
from compactor.http.session_config import opened, opened_to_read
from compactor.http.state import State, state
from compactor.models import recall_position

PAGES: Final = 20  # of the namespace's keys that one request looks at
_NAME: Final = re.compile(NAME_PATTERN)
Working = Annotated[State, Depends(state)]
By = Annotated[Caller, Depends(caller)]
WHOLE: Final = [Depends(large)]  # reads a whole session

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=StrictRoute)


@router.get("", responses=answered("SessionList"))
async def list_sessions(
    using: Working,
    by: By,
    cursor: Annotated[str, Query(pattern="^[0-9]{1,20}$", description="Of the page before; 0 begins.")] = "0",
) -> Response:
    """The names of the tenant's sessions, some at a time, in no order and possibly more than once.

    Go on with `cursor` until it is null; a page may be empty before that.
    """
    place, names = int(cursor), list[str]()
    if place >= 2**64:
        raise ConfigurationError("cursor: expected the cursor of the page before.")
    for _ in range(PAGES):
        page = await using.store.run(read_page(using.settings.namespace, place, tenant=by.tenant))
        prefix, place = f"{by.tenant}/", page.cursor
        found = (each.removeprefix(prefix) for each in page.sessions if each.startswith(prefix))
        names += [name for name in found if _NAME.fullmatch(name)]
        if names or not place:
            break
    return answer(
        {"sessions": [{"name": name} for name in dict.fromkeys(names)], "cursor": str(place) if place else None}
    )


@router.get("/{name}", responses=answered("Status"))
async def status(name: Name, using: Working, by: By) -> Response:
    """Where the session stands."""
    found = await opened_to_read(using, by, name).status()
    if not found.exists:
        raise problem_of(SessionNotFoundError())
    return answer(shown(found))


@router.delete("/{name}", responses=answered("Erased"))
async def erase(name: Name, using: Working, by: By) -> Response:
    """Removes all content of the session for good, and what it is bound to; the audit keeps ids and numbers."""
    erased = await opened_to_read(using, by, name).erase()
    await unbind_session(using, by, name)
    return answer(shown(erased))


@router.post("/{name}/messages", responses=answered("Receipt"))
async def push(name: Name, body: PushBody, using: Working, by: By, idempotency_key: IdempotencyKey = None) -> Response:
    """Stores one message or a list of them, exactly once."""
    session = await opened(using, by, name, body)
    return answer(shown(await session.push(body.messages, idempotency_key, body.limit_result)))


@router.post("/{name}/estimate", responses=answered("Verdict"))
async def estimate(name: Name, body: EstimateBody, using: Working, by: By) -> Response:
    """How full the context would be, in tokens; changes nothing and queues nothing."""
    session = await opened(using, by, name, body)
    verdict = await session.estimate(
        tools=body.tools,
        system=body.system,
        variables=body.variables,
        response_format=body.response_format,
        max_output_tokens=body.max_output_tokens,
    )
    return answer(shown(verdict))


@router.post("/{name}/prepare", responses=answered("Context"))
async def prepare(name: Name, body: PrepareBody, using: Working, by: By) -> Response:
    """The messages for one model call, and the verdict on them.

    With `messages`, your own list: what is new in it is stored, and the answer is for exactly that
    list. When Redis is away it is answered too, shortened to fit, with the verdict's `fit`
    `degraded`; keep your own list then.
    """
    session = await opened(using, by, name, body)
    context = await session.prepare(
        body.messages,
        tools=body.tools,
        system=body.system,
        variables=body.variables,
        response_format=body.response_format,
        extra=body.extra,
        max_output_tokens=body.max_output_tokens,
        tool_text=body.tool_text,
        wait=body.wait,
        wait_for=body.wait_for,
        repair=body.repair,
        keep_rows=body.keep_rows,
    )
    told = {
        "messages": context.messages,
        "verdict": shown(context.verdict),
        "system": context.system,
        "replaced": context.replaced,
        "left_out": context.left_out,
    }
    return await answer_of(context.messages, told)


@router.post("/{name}/sync", responses=answered("Receipt"))
async def sync(name: Name, body: SyncBody, using: Working, by: By) -> Response:
    """Stores what is new in your own list, without a send; its leading system messages are not stored."""
    session = await opened(using, by, name, body)
    return answer(shown(await session.sync(body.messages)))


@router.get("/{name}/recall/{recall_id}", responses=answered("Recalled"))
async def recall(name: Name, recall_id: RecallId, using: Working, by: By) -> Response:
    """The original message behind a recall id; of a run, the list of them."""
    return answer({"message": await opened_to_read(using, by, name).recall(recall_id)})


@router.get("/{name}/recall-tool", responses=answered("RecallTool"))
async def recall_tool(name: Name, using: Working, by: By) -> Response:
    """The tool that lets the bot's own model fetch originals: put `schema` among the tools of its model call."""
    return answer({"schema": opened_to_read(using, by, name).recall_tool().schema})


@router.post("/{name}/recall-tool", responses=answered("ToolText"))
async def run_recall_tool(name: Name, body: RecallToolBody, using: Working, by: By) -> Response:
    """The text of the tool message for one call of that tool; it says too what is wrong with the arguments.

    By default 2,000 tokens at most, less for a small window.
    """
    session = await opened(using, by, name, body, needed=False)
    return answer({"content": await session.recall_tool().handler(body.arguments)})


@router.get("/{name}/originals", dependencies=WHOLE, responses=answered("Originals"))
async def originals(name: Name, using: Working, by: By) -> Response:
    """The live conversation exactly as it was pushed; empty for a session that holds nothing."""
    found = await opened_to_read(using, by, name).originals()
    return await answer_of(found, {"messages": found})


@router.get("/{name}/compactions", responses=answered("Compactions"))
async def compactions(name: Name, using: Working, by: By) -> Response:
    """Every compaction that ended in more than "no need", oldest first; the newest 1,000."""
    found = await opened_to_read(using, by, name).compactions()
    return answer({"compactions": [shown(each) for each in found]})


@router.post("/{name}/compact", responses=answered("Outcome"))
async def compact(name: Name, using: Working, by: By, body: CompactBody | None = None) -> Response:
    """Queues a compaction now; with `wait` seconds, waits for its outcome."""
    given = body or CompactBody()
    session = await opened(using, by, name, given)
    return answer(shown(await session.compact(given.wait)))


@router.post("/{name}/undo", dependencies=WHOLE, responses=answered("Outcome"))
async def undo(name: Name, using: Working, by: By, body: UndoBody | None = None) -> Response:
    """Brings back what a compaction replaced; these messages are not replaced again until they are released."""
    given = body or UndoBody()
    session = await opened(using, by, name, given, needed=False)
    return answer(shown(await session.undo(given.compaction_id)))


@router.get("/{name}/pins", dependencies=WHOLE, responses=answered("Pins"))
async def pins(name: Name, using: Working, by: By) -> Response:
    """The pinned messages and phrases."""
    return answer(shown(await opened_to_read(using, by, name).pins()))


@router.post("/{name}/pins", dependencies=WHOLE, responses=answered("Pinned"))
async def pin(name: Name, body: PinBody, using: Working, by: By) -> Response:
    """Pins a message, which then is never replaced or left out, or a phrase, which stands in every replacement."""
    session = await opened(using, by, name, body, needed=False)
    return answer(shown(await session.pin(body.what)))


@router.post("/{name}/release", responses=answered("Released"))
async def release(name: Name, body: ReleaseBody, using: Working, by: By) -> Response:
    """Unpins messages and phrases, and lets undone messages be replaced again."""
    session = await opened(using, by, name, body, needed=False)
    return answer({"released": await session.release(body.what)})


@router.post("/{name}/rewind", responses=answered("Left"))
async def rewind(name: Name, body: RewindBody, using: Working, by: By) -> Response:
    """Ends the history behind a message; what followed stays recallable."""
    session = await opened(using, by, name, body, needed=False)
    return answer({"left": await session.rewind(body.position)})


@router.post("/{name}/fork", status_code=201, dependencies=WHOLE, responses=answered("Forked", status=201))
async def fork(name: Name, body: ForkBody, using: Working, by: By) -> Response:
    """A new session of the tenant with a copy of this history; recall ids stay the same."""
    check_place("at", body.at)
    session = await opened(using, by, name, body, needed=False)
    try:
        await session.fork(f"{by.tenant}/{body.new_name}", body.at)
    except ConfigurationError:  # names and place are right, so it is the last thing that can be wrong
        raise Problem(
            409,
            "session_exists",
            "The session exists",
            "new_name: a session of this name exists; nothing was changed. Choose another name.",
        ) from None
    return answer({"name": body.new_name}, 201)


@router.post("/{name}/close-open-calls", responses=answered("Receipt"))
async def close_open_calls(name: Name, using: Working, by: By, body: Configured | None = None) -> Response:
    """Stores a result that says "interrupted" for each call without one, as after a bot that died."""
    session = await opened(using, by, name, body or Configured(), needed=False)
    return answer(shown(await session.close_open_calls()))


@router.post("/{name}/clear", responses=answered("Cleared"))
async def clear(name: Name, using: Working, by: By) -> Response:
    """Ends the conversation; it stays recallable until the next clear."""
    return answer({"messages": await opened_to_read(using, by, name).clear()})


def check_place(field: str, place: Any) -> None:
    """Raises ConfigurationError when this names no message."""
    if isinstance(place, str):
        recall_position(place)
    elif place is not None and (isinstance(place, bool) or not isinstance(place, int)):
        raise ConfigurationError(f"{field}: expected a recall id such as 'm12', or its number.")
