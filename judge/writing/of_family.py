"""What the derived writer asks of the tasks of one family: tools and order as in its good episodes, values by what
relates a task to its run.

Above: derived.py. Below: drafting.py, common_values.py, common_tools.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.rubric import Criterion
from judge.writing.common_tools import alike_tools, beside_task, givers, roles
from judge.writing.common_values import common_kinds, task_arguments
from judge.writing.drafting import PA, SHOWN, TA, TF, TG, bounds, draft, said, told_result, worded
from judge.writing.sources import Source


def of_family(sources: Sequence[Source]) -> list[Criterion]:
    """Drafts; per-task facts are left out."""
    tools = [list(role.tools) for role in roles(sources, (), alike_tools(source.case for source in sources))]
    giving = givers(sources)
    found = _called([*tools, *(each for each in giving if each not in tools)])
    found += told_result(giving)
    found += bounds(sources)
    found.append(worded(sources))
    if tools:
        text = f"The changes were made: {'; '.join(' or '.join(names[:4]) for names in tools[:SHOWN])}."
        found.append(draft("changes", TF, 9, "called", text, each_of=tools))
    if kinds := common_kinds(sources, Source.met_with):
        text = f"Every {' or '.join(kinds)} that the task has was passed on, or found."
        found.append(draft("parts", TF, 8, "task_passed_on", text, kinds=kinds, or_found=True))
    if kinds := common_kinds(sources, Source.passed_on):
        text = f"Every {' or '.join(kinds)} that the task has was passed on."
        found.append(draft("arguments", PA, 7, "task_passed_on", text, kinds=kinds))
    if kinds := common_kinds(sources, Source.told):
        text = f"Every {' or '.join(kinds)} that the task has is in the answer, too."
        found.append(draft("subjects", TF, 7, "task_in_answer", text, kinds=kinds))
    if changing := sorted({act.written for source in sources for act in source.writes}):
        text = f"What {said(changing)} was given together was found together."
        found.append(draft("as-found", TG, 7, "written_as_found", text, any_of=changing))
    if parameters := beside_task(sources):
        text = f"What {said(sorted(parameters))} is given stands beside what the task names, or is what it says."
        found.append(draft("beside", PA, 7, "taken_beside_task", text, parameters=parameters))
    for place, (tool, parameter) in enumerate(task_arguments(sources), 1):
        text = f"`{parameter}` of {tool} is what the task says."
        found.append(
            draft(
                f"from-task-{place}",
                PA,
                6,
                "argument_from_task",
                text,
                tools=[tool],
                parameter=parameter,
                required=False,
            )
        )
    return found


def _called(tools: Sequence[Sequence[str]]) -> list[Criterion]:
    if not tools:
        return []
    text = f"These were called with success: {'; '.join(' or '.join(names[:4]) for names in tools[:SHOWN])}."
    return [draft("tools", TA, 8, "called", text, each_of=[list(names) for names in tools])]
