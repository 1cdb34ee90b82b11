"""Case files: what is read out of them, what is refused, and how an outcome is judged."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from client.cases import Case, CasesRefused, mismatches, read_case, read_cases
from longshift.contracts import RunResult
from longshift.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from longshift.status import Status

CASES = Path(__file__).parents[1] / "cases"
AGENTS = ("shop",)
MINIMAL: dict[str, Any] = {
    "agent": "shop",
    "task": "Look.",
    "turns": [{"content": "Looked."}],
    "expect": {"status": "COMPLETED"},
}


def written(folder: Path, changes: Mapping[str, Any], name: str = "case.json") -> Path:
    """A file with the minimal case and `changes`; None takes a key out."""
    file = folder / name
    case = {key: value for key, value in (MINIMAL | dict(changes)).items() if value is not None}
    file.write_text(json.dumps(case), encoding="utf-8")
    return file


def case(folder: Path, changes: Mapping[str, Any]) -> Case:
    return read_case(written(folder, changes), AGENTS)


def problems(folder: Path, changes: Mapping[str, Any]) -> list[str]:
    """What is wrong with the minimal case and `changes`, without the file's name, which each line begins with."""
    file = written(folder, changes)
    with pytest.raises(CasesRefused) as caught:
        read_case(file, AGENTS)
    assert all(line.startswith(f"{file}: ") for line in caught.value.problems)
    return [line.removeprefix(f"{file}: ") for line in caught.value.problems]


class TestReading:
    def test_every_kept_case_can_be_read_and_is_called_as_its_file(self) -> None:
        found = read_cases([CASES], AGENTS)
        assert [one.name for one in found] == sorted(file.stem for file in CASES.glob("*.json"))

    def test_a_case_holds_the_runs_input_the_turns_and_what_is_sent(self) -> None:
        found = read_case(CASES / "raise-limit-while-running.json", AGENTS)
        assert found.given.agent == "shop"
        assert [message.role for message in found.given.messages] == ["system", "user"]
        assert found.given.limits == {"model_calls": 1}
        assert [turn.delay_ms for turn in found.turns] == [2000, 0]
        assert [(one.update, one.during_model_call, one.arguments) for one in found.send] == [
            ("set_limits", 1, ({"model_calls": 2},))
        ]
        assert found.expect == {"status": "COMPLETED", "model_calls": 2, "tool_calls": 1}

    def test_a_task_may_stand_in_place_of_messages_and_the_files_name_in_place_of_a_name(self, tmp_path: Path) -> None:
        found = case(tmp_path, {})
        assert (found.name, found.given.task, found.given.messages) == ("case", "Look.", ())

    @pytest.mark.parametrize(
        ("args", "arguments"),
        [
            ({}, ()),
            ({"args": None}, (None,)),
            ({"args": {"mode": "now"}}, ({"mode": "now"},)),
            ({"args": "enough"}, ("enough",)),
            ({"args": []}, ()),
            ({"args": [1, [2]]}, (1, [2])),
        ],
    )
    def test_args_are_the_one_argument_or_a_list_of_them(
        self, tmp_path: Path, args: dict[str, Any], arguments: tuple[Any, ...]
    ) -> None:
        sent = {"at_start": True, "signal": "stop"} | args
        assert case(tmp_path, {"send": [sent]}).send[0].arguments == arguments

    def test_a_message_says_of_itself_what_it_is_and_when(self, tmp_path: Path) -> None:
        send = [{"at_start": True, "signal": "pause"}, {"during_model_call": 2, "update": "tell", "args": "Hurry."}]
        assert [str(one) for one in case(tmp_path, {"send": send}).send] == [
            "pause at the start",
            "tell during model call 2",
        ]


class TestFinding:
    def test_a_folder_is_read_by_name_and_nothing_but_json_in_it(self, tmp_path: Path) -> None:
        for name in ("b.json", "a.json"):
            written(tmp_path, {}, name)
        (tmp_path / "README.md").write_text("no case")
        assert [one.name for one in read_cases([tmp_path], AGENTS)] == ["a", "b"]

    def test_a_file_that_is_given_twice_is_one_case(self, tmp_path: Path) -> None:
        file = written(tmp_path, {})
        (tmp_path / "link.json").symlink_to(file)
        given = [file, tmp_path, tmp_path / "." / "case.json"]
        assert [one.name for one in read_cases(given, AGENTS)] == ["case"]

    def test_a_folder_without_cases_and_nothing_at_all_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(CasesRefused, match=r"holds no case; give a folder with \*\.json files"):
            read_cases([tmp_path], AGENTS)
        with pytest.raises(CasesRefused, match="there is nothing to play"):
            read_cases([], AGENTS)

    def test_every_bad_file_is_named_at_once(self, tmp_path: Path) -> None:
        written(tmp_path, {}, "good.json")
        (tmp_path / "torn.json").write_text('{"agent": "shop"')
        with pytest.raises(CasesRefused) as caught:
            read_cases([tmp_path, tmp_path / "missing.json"], AGENTS)
        torn, missing = caught.value.problems
        assert torn.startswith(f"{tmp_path / 'torn.json'}: is not valid JSON (")
        assert missing.startswith(f"{tmp_path / 'missing.json'}: cannot be read (No such file or directory)")


class TestRefusing:
    @pytest.mark.parametrize(
        ("changes", "line"),
        [
            ({"expect": None}, "expect: is missing; add it"),
            ({"expect": {}}, 'expect: is empty; say what must come out, as in {"status": "COMPLETED"}'),
            ({"agent": None}, "agent: is missing; add it"),
            ({"agent": "shp"}, "agent: there is no agent 'shp'; the agents are shop"),
            ({"task": None}, "task: give either a task (text) or messages (a transcript to go on from), not both"),
            ({"limits": {"model_calls": 0}}, "limits.model_calls: must be a whole number above 0, not 0"),
            ({"turns": [{"content": 1}]}, "turn 1: content: Input should be a valid string"),
            ({"turns": {}}, "must be a list of turns, or an object with such a list under `turns`"),
            ({"send": [{"signal": "stop"}]}, "send.0: say when: either `at_start`"),
            ({"send": [{"at_start": True, "during_model_call": 1, "signal": "stop"}]}, "send.0: say when: either"),
            ({"send": [{"at_start": True}]}, "send.0: say what: either a `signal` or an `update`, by its name"),
            ({"send": [{"at_start": True, "signal": "a", "update": "b"}]}, "send.0: say what: either a `signal`"),
            ({"send": [{"at_start": True, "signal": "a", "refused": True}]}, "send.0: `refused` is for an update;"),
            ({"send": [{"during_model_call": 0, "signal": "stop"}]}, "send.0.during_model_call: must be greater than"),
            ({"send": [{"at_start": 1, "signal": "stop"}]}, "send.0.at_start: must be a valid boolean"),
            ({"send": [{"at_start": True, "singal": "stop"}]}, "send.0.singal: is no key here; remove it or mend its"),
        ],
    )
    def test_a_mistake_is_told_by_key_and_remedy(self, tmp_path: Path, changes: dict[str, Any], line: str) -> None:
        (found,) = problems(tmp_path, changes)
        assert found.startswith(line)

    def test_an_unknown_key_is_refused_with_the_known_ones(self, tmp_path: Path) -> None:
        (unknown,) = problems(tmp_path, {"limit": {"model_calls": 1}})
        assert unknown.startswith("limit: is no key here; remove it or mend its name: the keys are name, why, agent,")
        (unexpectable,) = problems(tmp_path, {"expect": {"model_cals": 1}})
        assert unexpectable.startswith("expect.model_cals: nothing comes out under this name; take of answer, ")

    def test_a_file_that_is_no_object_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "list.json"
        file.write_text("[]")
        with pytest.raises(CasesRefused, match="must be an object with the keys of a case"):
            read_case(file, AGENTS)

    def test_the_mistakes_of_one_file_are_told_together(self, tmp_path: Path) -> None:
        changes = {"agent": "shp", "turns": [{"delay_ms": -1}], "expect": {"cost": 1}}
        assert [line.split(":")[0] for line in problems(tmp_path, changes)] == ["expect.cost", "agent", "turn 1"]


TRANSCRIPT: list[Message] = [
    UserMessage(content="Draft."),
    AssistantMessage(
        content="",
        calls=(
            ToolCall(id="a", name="draft_order", arguments={"sku": "SKU-VANILLA", "quantity": 6}),
            ToolCall(id="b", name="draft_order", arguments={"sku": "SKU-VANILLA", "quantity": 8}),
        ),
    ),
    ToolMessage(
        call_id="a",
        name="draft_order",
        content='{"ok":true,"value":{"sku":"SKU-VANILLA","quantity":6,"total_cents":1500,"currency":"USD"}}',
    ),
    ToolMessage(
        call_id="b", name="draft_order", content='{"error":{"kind":"refused","message":"not needed"},"ok":false}'
    ),
]
RESULT = RunResult(
    run_id="r",
    status=Status.MODEL_CALL_LIMIT,
    detail="1 of 1 model calls used",
    model_calls=1,
    exposure=30_000,
    messages=4,
    unrun_calls=("c",),
)


class TestJudging:
    @pytest.mark.parametrize(
        "expect",
        [
            {"status": "MODEL_CALL_LIMIT", "model_calls": 1, "tool_calls": 0, "output_tokens": 0, "messages": 4},
            {"exposure_cents": 3},
            {"exposure_cents": 3.0, "exposure_micro_usd": 30_000},
            {"drafts_cents": 1500, "evidence": False},
            {"answer": None, "partial": None},
            {"unrun_calls": ["c"]},
            {"detail": "1 of 1"},
        ],
    )
    def test_what_came_out_as_expected_is_no_mismatch(self, tmp_path: Path, expect: dict[str, Any]) -> None:
        assert mismatches(case(tmp_path, {"expect": expect}), RESULT, TRANSCRIPT) == []

    @pytest.mark.parametrize(
        ("expect", "sentence"),
        [
            ({"status": "X"}, 'status: expected "X", came "MODEL_CALL_LIMIT" (1 of 1 model calls used)'),
            ({"model_calls": 2}, "model_calls: expected 2, came 1"),
            ({"model_calls": True}, "model_calls: expected true, came 1"),
            ({"evidence": True}, "evidence: expected true, came false (1 of 2 drafts did not go through)"),
            ({"drafts_cents": 0}, "drafts_cents: expected 0, came 1500 (1 of 2 drafts did not go through)"),
            ({"answer": "Done."}, 'answer: expected "Done.", came null'),
            ({"unrun_calls": []}, 'unrun_calls: expected [], came ["c"]'),
            ({"detail": "2 of 2"}, 'detail: expected "2 of 2", came "1 of 1 model calls used"'),
        ],
    )
    def test_a_mismatch_names_key_both_values_and_the_reason(
        self, tmp_path: Path, expect: dict[str, Any], sentence: str
    ) -> None:
        assert mismatches(case(tmp_path, {"expect": expect}), RESULT, TRANSCRIPT) == [sentence]

    def test_a_long_value_is_cut(self, tmp_path: Path) -> None:
        (sentence,) = mismatches(case(tmp_path, {"expect": {"answer": "x" * 5000}}), RESULT, TRANSCRIPT)
        assert len(sentence) < 300
