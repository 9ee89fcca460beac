"""Secrets as they stand in tool output, and what looks like one and is none.

Every value is made at run time, so that no scanner of repositories takes this file for a leak.
"""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from hashlib import sha256
from typing import Final, NamedTuple

_MIXED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_BASE32: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_HEX: Final = "0123456789abcdef"


class Planted(NamedTuple):
    """A piece of tool output, and the secret in it that must not leave."""

    kind: str
    text: str
    secret: str


def drawn(length: int, alphabet: str = _MIXED, seed: str = "s") -> str:
    """Characters that look drawn by lot, the same in every run."""
    out = ""
    while len(out) < length:
        out += "".join(alphabet[byte % len(alphabet)] for byte in sha256(f"{seed}{len(out)}".encode()).digest())
    return out[:length]


def _key(kind: str, prefix: str, length: int, alphabet: str = _MIXED) -> Planted:
    secret = prefix + drawn(length, alphabet, kind)
    return Planted(kind, f"the key is {secret} and the rest", secret)


def _named(kind: str, text: str, secret: str) -> Planted:
    return Planted(kind, text.replace("@@", secret), secret)


_JWT: Final = ".".join([
    urlsafe_b64encode(b'{"alg":"HS256"}').decode().rstrip("="),
    urlsafe_b64encode(b'{"sub":"1234567890","name":"x"}').decode().rstrip("="),
    drawn(43, seed="jwt"),
])  # fmt: skip
_LINES: Final = [drawn(64, seed=f"pem{n}") for n in range(8)]
_PEM: Final = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *_LINES, "-----END RSA PRIVATE KEY-----"])
_LOGIN: Final = b64encode(b"admin:s3cr3t-pw!").decode()

SECRETS: Final = [
    _key("aws access key", "AKIA", 16, _BASE32),
    _key("aws session key", "ASIA", 16, _BASE32),
    _named("aws secret in env", "AWS_SECRET_ACCESS_KEY=@@\n", drawn(40, seed="aws")),
    _named("aws secret in ini", "[default]\naws_secret_access_key = @@\nregion = x\n", drawn(40, seed="awsini")),
    _key("github", "ghp_", 36),
    _key("github server", "ghs_", 36),
    _key("github fine grained", "github_pat_", 82),
    _key("gitlab", "glpat-", 20),
    _key("slack bot", "xoxb-1234567890-", 24),
    _key("slack app", "xapp-1-A012345-", 40),
    _key("stripe", "sk_live_", 24),
    _key("stripe restricted", "rk_live_", 24),
    _key("openai", "sk-", 48),
    _key("openai project", "sk-proj-", 100),
    _key("anthropic", "sk-ant-api03-", 95),
    _key("openrouter", "sk-or-v1-", 64, _HEX),
    _key("google", "AIza", 35),
    _key("google oauth", "ya29.", 80),
    _key("npm", "npm_", 36),
    _key("hugging face", "hf_", 34),
    _key("groq", "gsk_", 52),
    _key("pypi", "pypi-AgEI", 80),
    _key("sendgrid", f"SG.{drawn(22)}.", 43),
    _key("digitalocean", "dop_v1_", 64, _HEX),
    _key("shopify", "shpat_", 32, _HEX),
    _key("databricks", "dapi", 32, _HEX),
    _key("vault", "hvs.", 90),
    _key("azure client secret", "abc8Q~", 34),
    _key("telegram", "123456789:AA", 33),
    _key("twilio", "SK", 32, _HEX),
    _key("alibaba", "LTAI", 20),
    _key("xai", "xai-", 80),
    _key("tavily", "tvly-", 32),
    _named("slack webhook", "POST https://hooks.slack.com/services/@@", f"T{drawn(8)}/B{drawn(8)}/{drawn(24)}"),
    Planted("jwt", f"set token to {_JWT}, done", _JWT),
    Planted("pem", f"cat id_rsa\n{_PEM}\n$ ", _LINES[3]),
    Planted("pem in json", json.dumps({"private_key": _PEM + "\n"}), _LINES[0]),
    Planted("pem cut off", _PEM[:300] + "\n… 4 lines …", _LINES[2]),
    _named("bearer", "Authorization: Bearer @@", drawn(40, seed="bearer")),
    _named("bearer in curl", "curl -H 'authorization: bearer @@' https://api", drawn(30, seed="curl")),
    _named("bearer in a sentence", "sent Bearer @@ to the host", drawn(30, seed="said")),
    _named("basic", "Authorization: Basic @@", _LOGIN),
    _named("basic alone", '["Basic @@"]', _LOGIN),
    _named("curl login", "curl -u admin:@@ https://host", "S3cr3t,pw"),
    _named("api key header", "X-Api-Key: @@\nAccept: */*", drawn(32, seed="header")),
    _named("postgres", "postgres://app:@@@db.internal:5432/app", "S3cr3tPw"),
    _named("redis", "REDIS_URL=redis://:@@@cache:6379/0", "p4ss-w0rd"),
    _named("mongo", "mongodb+srv://svc:@@@cluster0.example.net/?retryWrites=true", "hunter2"),
    _named("git over https", "https://oauth2:@@@gitlab.example.org/a/b.git", drawn(20, seed="git")),
    _named("mssql", "Server=db;User Id=sa;Password=@@;Encrypt=true", "Zx9!kkk"),
    _named("azure storage", "AccountName=x;AccountKey=@@;EndpointSuffix=core.windows.net", drawn(86) + "=="),
    _named("azure sas", "https://x.blob.core.windows.net/c?sv=1&sig=@@&se=2", drawn(43, seed="sas")),
    _named("env", "PORT=80\nDB_PASSWORD=@@\nDEBUG=1", "Tr0ub4dor"),
    _named("env of letters", "SMTP_PASS=@@\n", "swordfish"),
    _named("export", 'export API_SECRET="@@"', "b7-very-hidden"),
    _named("yaml", "db:\n  password: @@\n", "correct-horse"),
    _named("json", '{"user": "mia", "password": "@@"}', "hunter2-Zq9"),
    _named("json of letters", '{"passwd":"@@"}', "swordfish"),
    _named("json in json", json.dumps(json.dumps({"client_secret": "@@"})), drawn(24, seed="client")),
    _named("json key", '{"apiKey": "@@", "n": 1}', drawn(32, _HEX, "apikey")),
    _named("python", "connect(host, password='@@')", "tiger77"),
    _named("option", "mysql --password=@@ -h db", "r00tpw"),
    _named("option apart", "tool --api-key @@ run", drawn(32, seed="option")),
    _named("xml", "<Password>@@</Password>", "xMl-Secr3t"),
    _named("properties", "spring.datasource.password=@@", "pr0perties"),
    _named("toml", 'secret_key = "@@"', "t0ml/secret"),
    _named("query", "GET /v1?access_token=@@&page=2", drawn(32, seed="query")),
    _named("sentence", "Your password is @@, change it.", "N3wP4ssw0rd"),
    _named("chinese", "密码：@@\n用户：admin", "Abc12345"),
    _named("chinese sentence", "密码是 @@。", "Abc!2345"),
    _named("token", "token: @@", drawn(32, seed="token")),
    _named("refresh token", '"refresh_token": "@@"', drawn(60, seed="refresh")),
    _named("set-cookie", "Set-Cookie: sessionid=@@; Path=/; HttpOnly", drawn(32, seed="set")),
    _named("cookie", "Cookie: theme=dark-mode; sid=@@", drawn(32, seed="cookie")),
    _named("session in json", '{"session_token": "@@"}', drawn(40, seed="sess")),
    _named("variable of a container", '- name: DB_PASS\n  value: "@@"', "sup3rs3cret"),
    _named("variable in json", '{"name": "DB_PASSWORD", "value": "@@"}', "sup3rs3cret"),
    _named("netrc", "machine github.com login mia password @@", "gh5pass9x"),
    _named("sshpass", "sshpass -p @@ ssh host", "Qw3rty!x"),
    _named("kubeconfig", "client-key-data: @@", drawn(200, seed="kube")),
    _named("row of a table", "| password | @@ |", "T4bleP4ss"),
    _named("client file", "[client]\npassword=@@\n", "letmein!"),
    _named("of a cache", "redis_cache_password: @@", "example123"),
    _named("hex in a variable", "AZURE_OPENAI_KEY=@@", drawn(32, _HEX, "azure")),
    _named("java session", "JSESSIONID=@@", drawn(32, "0123456789ABCDEF", "java")),
    _named(
        "mnemonic", "mnemonic: @@", "abandon ability able about above absent absorb abstract absurd abuse access acid"
    ),
    _named("django hash", "hash: @@", f"pbkdf2_sha256$600000$abc${drawn(43)}="),
    _named("bcrypt", "alice:@@:1000", "$2b$12$" + drawn(53, seed="bcrypt")),
    _named("shadow", "root:@@:19000:0:", "$6$rounds$" + drawn(86, seed="shadow")),
]

LOOK_ALIKES: Final = {
    "git hash": f"commit {drawn(40, _HEX)}\nAuthor: A <a@example.com>",
    "short hashes": "9f3c2ab fix\n1b2c3d4 more",
    "sha256": f"sha256:{drawn(64, _HEX)}",
    "integrity": f'"integrity": "sha512-{drawn(86)}=="',
    "uuid": '{"id": "6f1c2d9e-0b7a-4c3d-9e8f-1a2b3c4d5e6f"}',
    "session uuid": '{"session_id": "6f1c2d9e-0b7a-4c3d-9e8f-1a2b3c4d5e6f"}',
    "order": "order #W2378156 of user mia_li_3668, total 4711.00, tracking 1Z999AA10123456784",
    "base64 image": f"data:image/png;base64,{drawn(4_000)}==",
    "page token": f'"nextPageToken": "{drawn(40)}", "page_token": "{drawn(40)}"',
    "key of a map": '{"key": "PROJ-123", "primary_key": "id_4711", "cache_key": "a1b2c3d4e5f6a7b8c9d0"}',
    "python": 'password = request.form["password"]\ntoken = self.tokenizer.next_token()\nkey=os.environ["API_KEY"]',
    "signature": "def login(password: str, secret: SecretStr, api_key: str | None = None) -> Token:",
    "schema": '{"password": {"type": "string"}, "secret": null, "token": 4096, "max_tokens": 1024}',
    "template": "DB_PASSWORD=${DB_PASSWORD}\nAPI_KEY=<your-api-key>\nSECRET={{ secret }}\nPASS=****",
    "prose": "password: must be at least 8 characters. The secret: be kind. Enter your password: ",
    "prose in chinese": "密码：必须至少八个字符",
    "error": "Error: invalid token: unexpected end of input; authentication failed: password incorrect",
    "paths": "/etc/ssl/private/key.pem secrets/README.md ~/.ssh/id_rsa.pub src/auth/token_store.py:42",
    "public key": f"ssh-ed25519 {drawn(68)} a@host\n-----BEGIN PUBLIC KEY-----\n{drawn(64)}\n-----END PUBLIC KEY-----",
    "certificate": f"-----BEGIN CERTIFICATE-----\n{drawn(64)}\n-----END CERTIFICATE-----",
    "addresses": "http://localhost:8080/path?x=a@b.c https://example.com:443/@user ftp://host/file",
    "kebab": "task-runner-for-long-names sk-learn-contrib-and-other-words risk-assessment-2024-of-everything",
    "marks": "password: [SECRET_1] and [SECRET_2]",
    "date and time": "token expires at: 2031-04-09T12:00:00Z, key_id: 42",
}
