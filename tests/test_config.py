"""The configuration: what runs by itself, what is refused, and on which line it is told."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config, KafkaSettings, load_config
from spanfuse_processor.config.docs import markdown
from spanfuse_processor.errors import ConfigError
from spanfuse_schemas import Policy
from spanfuse_schemas.signing import Keyring

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write `file.yaml` in a folder that is the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        Path("file.yaml").write_text(text, encoding="utf-8")
        return Path("file.yaml")

    return write


def problems(path: Path, env: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load_config(path, env or {})
    return refused.value.problems


def test_without_a_file_and_with_an_empty_one_the_defaults_run(write: Write) -> None:
    assert load_config(None) == load_config(write("")) == load_config(write("# nothing\n")) == Config()
    assert load_config(None).policy() == Policy()
    otlp = load_config(None).receivers.otlp
    assert otlp is not None
    assert otlp.protocols.http is not None
    assert otlp.protocols.grpc is not None
    assert (otlp.protocols.http.endpoint, otlp.protocols.grpc.endpoint) == ("127.0.0.1:4318", "127.0.0.1:4317")
    assert load_config(None).extensions.api.endpoint == "127.0.0.1:8787"


def test_sections_become_the_policy_of_the_core(write: Write) -> None:
    policy = load_config(
        write(
            "detectors:\n"
            "  repeat.prompt: {count: 5}\n"
            "  velocity: {mode: off}\n"
            "budgets: {session: {limit_usd: 2.5}}\n"
            "policies: [{tool: 'wait_*', rules: {repeat.no_progress: {exempt: true}}}]\n"
            "service: {mode: enforce, idle_timeout_s: 60}\n"
        )
    ).policy()
    assert (policy.mode, policy.idle_timeout_s) == ("enforce", 60)
    assert policy.rules.repeat_prompt.count == 5
    assert policy.rules.velocity.mode == "off"
    assert policy.rules.budget_session.limit_usd == 2.5
    assert policy.overrides[0].rules == {"repeat.no_progress": {"exempt": True}}


def test_budgets_by_scope_and_name_become_those_of_the_policy(write: Write) -> None:
    policy = load_config(
        write(
            "budgets:\n"
            "  session: {limit_usd: 2.5}\n"
            "  user/daily: {limit_usd: 5, period: daily, time_zone: Europe/Berlin}\n"
            "  team/acme: {for: acme, limit_usd: 100, period: monthly, thresholds: [0.5], mode: warn}\n"
            "  global: {limit_tokens: 1000000, strength: strict}\n"
        )
    ).policy()
    assert policy.rules.budget_session.limit_usd == 2.5
    daily, acme, everybody = policy.budgets
    assert (daily.name, daily.scope, daily.unit, daily.limit, daily.period) == (
        "user/daily", "user", "usd", 5 * 10**9, "daily",
    )  # fmt: skip
    assert (acme.match, acme.thresholds, acme.mode) == ("acme", (0.5,), "warn")
    assert (everybody.scope, everybody.strength, everybody.unit) == ("global", "strict", "tokens")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("receivers:\n  otlp:\n", (True, True, False)),
        ("receivers:\n  otlp:\n    protocols:\n", (True, True, False)),
        ("receivers:\n  otlp:\n    protocols:\n      http:\n", (True, False, False)),
        ("receivers:\n  otlp: {protocols: {grpc: {}}}\n", (False, True, False)),
        ("receivers:\n  kafka:\n", (False, False, True)),
        ("receivers:\n", (True, True, False)),
    ],
)
def test_receivers_and_protocols_that_are_listed_are_on(write: Write, text: str, wanted: tuple[bool, ...]) -> None:
    found = load_config(write(text)).receivers
    http = found.otlp is not None and found.otlp.protocols.http is not None
    grpc = found.otlp is not None and found.otlp.protocols.grpc is not None
    assert (http, grpc, found.kafka is not None) == wanted


def test_a_key_with_nothing_behind_it_means_its_default(write: Write) -> None:
    text = "detectors:\n  cycle:\npricing:\npolicies:\nextensions:\n  storage:\nbudgets:\n  session:\n    limit_usd:\n"
    assert load_config(write(text)) == Config()


BAD: dict[str, tuple[str, list[str]]] = {
    "an unknown section": (
        "detektors: {}\n",
        ["file.yaml:1: detektors: unknown key; did you mean detectors?"],
    ),
    "an unknown key with nothing behind it": (
        "detectors:\n  cycle:\n    rouns:\n",
        ["file.yaml:3: detectors.cycle.rouns: unknown key; did you mean rounds?"],
    ),
    "an unknown rule": (
        "detectors:\n  repeat.prompts: {}\n",
        ["file.yaml:2: detectors.repeat.prompts: unknown key; did you mean repeat.prompt?"],
    ),
    "an unknown key that resembles nothing": (
        "service:\n  zzz: 1\n",
        [
            "file.yaml:2: service.zzz: unknown key; known are mode, idle_timeout_s, fingerprint_key, signing_key, telemetry"
        ],
    ),
    "a value out of its range": (
        "\n\ndetectors:\n  cycle:\n    # few\n    rounds: 1\n",
        ["file.yaml:6: detectors.cycle.rounds: Input should be greater than or equal to 2"],
    ),
    "a word that is none of those known": (
        "service:\n  mode: enforced\n",
        ["file.yaml:2: service.mode: Input should be 'observe' or 'enforce'"],
    ),
    "a number that is none": (
        "service: {idle_timeout_s: soon}\n",
        ["file.yaml:1: service.idle_timeout_s: Input should be a valid number, unable to parse string as a number"],
    ),
    "no time at all": (
        "service: {idle_timeout_s: .inf}\n",
        ["file.yaml:1: service.idle_timeout_s: Input should be a valid number, unable to parse string as a number"],
    ),
    "a list where a section belongs": (
        "service: [observe]\n",
        ["file.yaml:1: service: Input should be a valid dictionary or instance of Service"],
    ),
    "an address without a port": (
        "extensions:\n  api:\n    endpoint: localhost\n",
        ["file.yaml:3: extensions.api.endpoint: must be HOST:PORT, such as 127.0.0.1:4318"],
    ),
    "a port that is none": (
        "extensions: {api: {endpoint: '127.0.0.1:70000'}}\n",
        ["file.yaml:1: extensions.api.endpoint: must be HOST:PORT, such as 127.0.0.1:4318"],
    ),
    "a key twice": (
        "service:\n  mode: observe\n  mode: enforce\n",
        ["file.yaml:3: service.mode: duplicate key, first on line 2"],
    ),
    "budgets of a scope that is none, and an unknown key in another": (
        "budgets:\n  usr/daily: {limit_usd: 1}\n  team:\n    limit_usd: 1\n    perod: daily\n",
        [
            "file.yaml:2: budgets.usr/daily: unknown scope; did you mean user?",
            "file.yaml:5: budgets.team.perod: unknown key; did you mean period?",
        ],
    ),
    "budgets that contradict themselves": (
        "budgets:\n"
        "  user/a: {limit_usd: 1}\n"
        "  user/b: {limit_usd: 2}\n"
        "  global:\n    limit_usd: 9\n    for: x\n    time_zone: Europe/Berlin\n    on_unavailable: closed\n",
        [
            "file.yaml:3: budgets.user/b: for the same as user/a, in the same unit and period: only one of them could hold",
            "file.yaml:6: budgets.global.for: the global budget is everybody's: it has no `for`",
            "file.yaml:7: budgets.global.time_zone: a total never begins anew: it has no time zone",
            "file.yaml:8: budgets.global.on_unavailable: a soft budget asks no ledger; set strength: strict, or leave it out",
        ],
    ),
    "budgets without a limit, with two, of no time zone and of a strange name": (
        "budgets:\n"
        "  user:\n"
        "  team: {limit_usd: 1, limit_steps: 1}\n"
        "  agent: {limit_usd: 1, period: daily, time_zone: Mars}\n"
        "  agent/a b: {limit_usd: 1}\n",
        [
            "file.yaml:2: budgets.user: give exactly one of limit_usd, limit_tokens and limit_steps",
            "file.yaml:3: budgets.team: give exactly one of limit_usd, limit_tokens and limit_steps",
            "file.yaml:4: budgets.agent.time_zone: 'Mars' is no time zone, such as Europe/Berlin",
            "file.yaml:5: budgets.agent/a b: after the scope comes a name of letters, digits, dots, dashes and underscores, "
            "64 at most",
        ],
    ),
    "a budget among the detectors": (
        "detectors:\n  budget.session: {limit_usd: 1}\n",
        ["file.yaml:1: detectors: budget.session is set at budgets.session"],
    ),
    "an override with a mistake": (
        "policies:\n  - agent: a\n    rules:\n      cycle:\n        rounds: many\n",
        [
            "file.yaml:5: policies[0].rules.cycle.rounds: Input should be a valid integer, "
            "unable to parse string as an integer"
        ],
    ),
    "an override with an unknown key": (
        "policies:\n  - agnet: a\n    rules: {}\n",
        ["file.yaml:2: policies[0].agnet: unknown key; did you mean agent?"],
    ),
    "an override without rules": (
        "policies:\n  - agent: a\n  - agent: b\n    rules: {}\n",
        ["file.yaml:2: policies[0].rules: Field required"],
    ),
    "an override that cannot work": (
        "policies:\n  - tool: a\n    rules: {velocity: {}}\n",
        ["file.yaml:2: policies[0]: an override for a tool cannot change velocity: only rules on steps know it"],
    ),
    "a price without its half": (
        "pricing:\n  models:\n    gpt-x:\n      input_usd_per_mtok: 3\n",
        ["file.yaml:3: pricing.models.gpt-x.output_usd_per_mtok: Field required"],
    ),
    "a price beyond a dollar a token": (
        "pricing:\n  models:\n    gpt-x: {input_usd_per_mtok: 1.0e300, output_usd_per_mtok: 1}\n",
        ["file.yaml:3: pricing.models.gpt-x.input_usd_per_mtok: Input should be less than or equal to 1000000"],
    ),
    "SASL without credentials": (
        "receivers:\n  kafka:\n    security_protocol: SASL_SSL\n    sasl_username: me\n",
        ["file.yaml:2: receivers.kafka: security_protocol SASL_SSL needs sasl_password"],
    ),
    "a key file without its certificate": (
        "receivers:\n  kafka: {ssl_keyfile: k.pem}\n",
        ["file.yaml:2: receivers.kafka: ssl_keyfile needs ssl_certfile"],
    ),
    "brokers without ports": (
        "receivers: {kafka: {brokers: 'a:9092,b'}}\n",
        ["file.yaml:1: receivers.kafka.brokers: must be HOST:PORT, separated by commas"],
    ),
    "a variable that is not set": (
        "service:\n  mode: ${env:MODE}\n",
        ["file.yaml:2: service.mode: environment variable MODE is not set; set it, or write ${env:MODE:-default}"],
    ),
    "a reference without its provider": (
        "service:\n  mode: ${MODE}\n",
        [
            "file.yaml:2: service.mode: a reference is written ${env:VAR} or ${env:VAR:-default}, and a $ before a brace $$"
        ],
    ),
    "a reference that does not end": (
        "service:\n  mode: '${env:MODE'\n",
        [
            "file.yaml:2: service.mode: a reference is written ${env:VAR} or ${env:VAR:-default}, and a $ before a brace $$"
        ],
    ),
    "a tab": (
        "service:\n\tmode: observe\n",
        ["file.yaml:2: not YAML: found character '\\t' that cannot start any token"],
    ),
    "a bracket that does not close": (
        "service: {mode: observe\n",
        ["file.yaml:2: not YAML: expected ',' or '}', but got '<stream end>'"],
    ),
    "two documents": (
        "service: {}\n---\nservice: {}\n",
        ["file.yaml:2: not YAML: but found another document"],
    ),
    "an alias of nothing": (
        "service: *there\n",
        ["file.yaml:1: not YAML: found undefined alias 'there'"],
    ),
    "an alias of itself": (
        "service: &a\n  mode: *a\n",
        ["file.yaml:1: service.mode.mode.mode: nested too deep"],
    ),
    "a tag": (
        "service: !!python/object:os.system {}\n",
        ["file.yaml:1: service: tag tag:yaml.org,2002:python/object:os.system is not used here"],
    ),
    "a list": (
        "- service\n",
        ["file.yaml:1: must be sections (receivers, detectors, …), each with its settings"],
    ),
    "a text": (
        "hello\n",
        ["file.yaml:1: must be sections (receivers, detectors, …), each with its settings"],
    ),
}


@pytest.mark.parametrize(("text", "wanted"), BAD.values(), ids=list(BAD))
def test_each_mistake_is_one_line_with_path_and_line(write: Write, text: str, wanted: list[str]) -> None:
    assert problems(write(text)) == wanted


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines(write: Write) -> None:
    text = "service:\n  mode: no\ndetectors:\n  cycle: {rounds: 0}\n  cycle: {}\nextensions:\n  x: ${env:NO}\n"
    assert [line.split(":")[1] for line in problems(write(text))] == ["2", "4", "5", "7", "7"]


def test_files_that_cannot_be_read_are_one_line(write: Write) -> None:
    assert problems(Path("missing.yaml")) == ["missing.yaml: No such file or directory"]
    assert problems(Path("/")) == ["/: Is a directory"]
    write("").write_bytes(b"service: \xff\n")
    assert problems(Path("file.yaml")) == ["file.yaml: not UTF-8 text: byte 9"]


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("${env:A}", "one"),
        ("x-${env:A}-${env:B}", "x-one-two"),
        ("${env:NO:-default}", "default"),
        ("${env:EMPTY:-default}", "default"),
        ("${env:A:-default}", "one"),
        ("'${env:EMPTY}'", ""),
        ("'${env:NO:-}'", ""),
        ("$${env:A}", "${env:A}"),
        ("a$b$$c", "a$b$c"),
        ("${env:REFERENCE}", "${env:A}"),
    ],
)
def test_references_to_the_environment_are_replaced(write: Write, written: str, wanted: str) -> None:
    env = {"A": "one", "B": "two", "EMPTY": "", "REFERENCE": "${env:A}"}
    config = load_config(write(f"extensions:\n  storage:\n    path: {written}\n"), env)
    assert config.extensions.storage.path == wanted


def test_a_value_from_the_environment_is_read_by_the_type_of_its_field(write: Write) -> None:
    text = "receivers:\n  kafka: {partitions: '${env:N}'}\nbudgets:\n  session:\n    limit_usd: ${env:NO:-}\n"
    config = load_config(write(text), {"N": "12"})
    assert config.receivers.kafka is not None
    assert config.receivers.kafka.partitions == 12
    assert config.budgets.session.limit_usd is None


def test_the_environment_of_the_process_is_the_default(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPANFUSE_TEST_MODE", "enforce")
    assert load_config(write("service: {mode: '${env:SPANFUSE_TEST_MODE}'}\n")).service.mode == "enforce"


def test_words_of_old_yaml_are_words(write: Write) -> None:
    text = "detectors:\n  cycle: {mode: off, rounds: 010}\nreceivers: {kafka: {client_id: yes}}\n"
    config = load_config(write(text))
    assert (config.detectors.cycle.mode, config.detectors.cycle.rounds) == ("off", 10)
    assert config.receivers.kafka is not None
    assert config.receivers.kafka.client_id == "yes"


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in pairwise("abcdefghij")
)
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{{', '.join([f'<<: *{before}'] * 10)}}}\n" for before, name in pairwise("abcdefghij")
)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", [BOMB, MERGED, "a: &a [*a, *a]\n"], ids=["values", "merge keys", "itself"])
def test_aliases_that_stand_for_billions_are_one_line(write: Write, text: str) -> None:
    assert problems(write(text)) == ["file.yaml:1: more than 20000 values, counting what aliases stand for"]


@pytest.mark.parametrize("text", ["[" * 50_000, "{a: " * 5_000 + "}" * 5_000])
def test_nesting_without_end_is_one_line(write: Write, text: str) -> None:
    assert problems(write(text)) == ["file.yaml:1: nested too deep"]


def test_a_file_that_is_too_large_is_not_parsed(write: Write) -> None:
    assert problems(write("#" * (256 * 1024 + 1))) == [
        "file.yaml: larger than 262144 bytes; is this a configuration file?"
    ]
    assert load_config(write("#" * 256 * 1024)) == Config()
    assert "larger than" in problems(Path("/dev/zero"))[0]


def test_anchors_and_merge_keys_work(write: Write) -> None:
    text = "detectors:\n  repeat.prompt: &r {count: 7}\n  repeat.error: {<<: *r, mode: warn}\n"
    rules = load_config(write(text)).detectors
    assert (rules.repeat_error.count, rules.repeat_error.mode) == (7, "warn")


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "text",
    [
        "receivers: {kafka: {sasl_password: [%s]}}\n",
        "receivers: {kafka: {sasl_password: %s, partitions: many}}\n",
        "receivers: {kafka: {sasl_password: %s, security_protocol: SASL_SSL}}\n",
        "receivers: {kafka: {sasl_pasword: %s}}\n",
        "receivers: {kafka: {sasl_password: %s, sasl_password: %s}}\n",
        "receivers: {kafka: {security_protocol: %s}}\n",
        "receivers: {kafka: {brokers: %s}}\n",
        "receivers:\n  kafka:\n    sasl_password: ${env:%s-x}\n",
        "service: {idle_timeout_s: %s}\n",
    ],
)
def test_no_message_shows_what_was_given(write: Write, text: str) -> None:
    assert SECRET not in "\n".join(problems(write(text.replace("%s", SECRET))))


def test_a_secret_is_never_printed(write: Write) -> None:
    config = load_config(write("receivers: {kafka: {sasl_password: '${env:P}'}}\n"), {"P": SECRET})
    kafka = config.receivers.kafka
    assert kafka is not None
    assert kafka.sasl_password.get_secret_value() == SECRET
    shown: list[Any] = [config, repr(config), kafka.model_dump(mode="json"), config.model_dump_json()]
    assert all(SECRET not in str(s) for s in shown)
    with pytest.raises(ValueError, match="sasl_username") as refused:
        KafkaSettings.model_validate({"security_protocol": "SASL_SSL", "sasl_password": SECRET})
    assert SECRET not in str(refused.value)


def test_signing_keys_are_a_list_or_one_variable_and_are_never_shown(write: Write) -> None:
    one = load_config(write("service: {signing_key: '${env:KEYS}'}\n"), {"KEYS": f"{SECRET}-new-key,{SECRET}-old-key"})
    two = load_config(write(f"service: {{signing_key: [{SECRET}-new-key, {SECRET}-old-key]}}\n"), {})
    signed = one.service.keys().signed(b"{}")
    assert signed == two.service.keys().signed(b"{}") == Keyring([f"{SECRET}-new-key"]).signed(b"{}")
    assert SECRET not in f"{one} {one.model_dump(mode='json')} {one.service.keys()!r}"
    (told,) = problems(write("service: {signing_key: guessable}\n"))
    assert "at least 16 characters" in told
    assert "guessable" not in told


def test_the_reference_is_made_from_the_models() -> None:
    """If this fails: python -m spanfuse_processor.config.docs > docs/configuration.md"""
    written = Path(__file__).parents[1] / "docs" / "configuration.md"
    assert written.read_text(encoding="utf-8") == markdown()


def test_every_key_is_documented() -> None:
    assert "| — |" not in markdown()


PRICES = "acme-7: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}\n"


def test_prices_may_stand_in_a_file_beside_the_configuration_which_wins_over_it(write: Write) -> None:
    Path("sub").mkdir()
    Path("sub/prices.yaml").write_text(PRICES + "acme-8: {input_usd_per_mtok: 3, output_usd_per_mtok: 4}\n")
    here = "pricing: {file: prices.yaml, models: {acme-8: {input_usd_per_mtok: 5, output_usd_per_mtok: 6}}}\n"
    Path("sub/spanfuse.yaml").write_text(here)
    models = load_config(Path("sub/spanfuse.yaml")).pricing.models
    assert {name: price.input_usd_per_mtok for name, price in models.items()} == {"acme-7": 1, "acme-8": 5}


def test_a_file_of_prices_may_be_json(write: Write) -> None:
    Path("prices.json").write_text('{\n\t"acme-7": {\n\t\t"input_usd_per_mtok": 1, "output_usd_per_mtok": 2\n\t}\n}\n')
    assert load_config(write("pricing: {file: prices.json}\n")).pricing.models["acme-7"].output_usd_per_mtok == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PRICES + "acme-8:\n  output_usd_per_mtok: 3\n", "prices:2: acme-8.input_usd_per_mtok: Field required"),
        (PRICES.replace("1", "-1"), "prices:1: acme-7.input_usd_per_mtok: Input should be greater than or equal to 0"),
        (PRICES[:-2] + ", cach_read_usd_per_mtok: 1}", "unknown key; did you mean cache_read_usd_per_mtok?"),
        ("- acme-7\n", "prices:1: must be models, each with its prices"),
        ("acme-7: {\n", "prices:2: not YAML"),
        (None, "file.yaml:1: pricing.file: prices: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_file_of_prices_is_told_with_its_line(write: Write, text: str | None, told: str) -> None:
    if text is not None:
        Path("prices").write_text(text)
    (problem,) = problems(write("pricing: {file: prices}\n"))
    assert told in problem


def test_faults_of_both_files_are_told_at_once(write: Write) -> None:
    Path("prices").write_text("- 1\n")
    text = "pricing: {file: prices}\nextensions: {storage: {path: '${env:NOT_SET}'}}\n"
    assert [problem.partition(": ")[0] for problem in problems(write(text))] == ["file.yaml:2", "prices:1"]


def test_rules_on_tools_are_read_and_their_mistakes_told_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "spanfuse.yaml"
    file.write_text(
        "tools:\n"
        "  default: ask\n"
        "  rules:\n"
        "    - {tool: bash, action: deny, arguments: {command: {matches: '\\brm\\b'}}, reason: Files are kept.}\n"
        "    - {tool: search, action: allow, max_calls: 20}\n"
    )
    policy = load_config(file).policy()
    assert [(rule.tool, rule.action, rule.max_calls) for rule in policy.tools] == [
        ("bash", "deny", None),
        ("search", "allow", 20),
    ]
    assert policy.tools_default == "ask"
    file.write_text(
        "tools:\n"
        "  rules:\n"
        "    - {tool: bash, action: deny, arguments: {command: {matches: '('}}}\n"
        "    - {tool: bash, action: deny, arguments: {command: {contans: rm}}}\n"
        "    - {tool: bash, action: forbid}\n"
    )
    with pytest.raises(ConfigError) as found:
        load_config(file)
    assert [problem.split(": ", 2)[1] for problem in found.value.problems] == [
        "tools.rules[0].arguments.command.matches",
        "tools.rules[1].arguments.command.contans",
        "tools.rules[2].action",
    ]
    assert "did you mean contains?" in found.value.problems[1]


def test_rules_on_tools_that_nobody_enforces_are_hinted_at() -> None:
    for service, hints in (("observe", 1), ("enforce", 0)):
        found = Config.model_validate({"service": {"mode": service}, "tools": {"default": "deny"}}).hints()
        assert len(found) == hints
    assert Config().hints() == []
