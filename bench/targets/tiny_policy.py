"""A policy of some hundred thousand weights that can learn to work in small_world.py: its tokenizer, its weights, and a
first schooling by imitation of careless agents, so that what it samples are actions at all.

Above: bench/online.py and tests of training online. Below: torch, transformers, tokenizers; rows of the log as
trainer/data makes them for any policy.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from bench.targets.small_world import CITIES, ERRANDS, Errand
from judge.judging import Judge
from proxy.policy.base import FINISH, Conversation, Variant
from proxy.policy.client_world import connected
from proxy.policy.surface import Surface
from proxy.policy.text_calls import messages
from proxy.store.database import Database
from proxy.store.rendering import action
from trainer.data.collecting import collect, collected_policy_rows
from trainer.data.policy_rows import PolicySettings
from trainer.data.settings import DataSettings
from trainer.data.tokens import Reader
from trainer.loop.judging import judge_all
from trainer.online.rewarding import logged
from trainer.rows import PolicyRow

TEMPLATE = (
    "{% for each in messages %}<|im_start|>{{ each.role }}\n{{ each.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|pad|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 700
RATE = 4e-3
Act = tuple[str, dict[str, Any]]


def careless(errand: Errand, chance: random.Random) -> Iterator[Act]:
    """What an agent does that gives up too early, asks about another city, or tells what it was not told; in a third of
    the cases it does well."""
    way = chance.choices(("well", "gives up", "other city", "makes up"), (6, 6, 5, 3))[0]
    city = chance.choice([each for each in CITIES if each != errand.city]) if way == "other city" else errand.city
    yield "search_tools", {"query": errand.query}
    if way == "gives up":
        yield FINISH, {"outcome": "abandoned", "answer": "I could not find it."}
        return
    yield "call_tool", {"tool": errand.subject.written, "arguments": {"city": city}}
    told = errand.subject.told(city)
    if way == "makes up":
        told = told.replace(errand.subject.values[city], "88")
    yield FINISH, {"outcome": "done", "answer": told}


async def demonstrate(url: str, database: Database, episodes: int, chance: random.Random) -> None:
    """Episodes of careless agents through the gateway, over MCP, one after the other, until all are in its log."""
    clients = [f"careless-{uuid.uuid4().hex[:12]}" for _ in range(episodes)]
    for number, client in enumerate(clients):
        errand = ERRANDS[number % len(ERRANDS)]
        async with connected(url, Variant.TOOLS, client_name=client) as world:
            for name, arguments in careless(errand, chance):
                more = {"task": errand.task} if name == "search_tools" else {}
                await world.call(name, {**arguments, **more})
    await logged(database, clients)


async def system_of(url: str) -> str:
    """What a policy is told there before any task."""
    async with connected(url, Variant.TOOLS) as world:
        surface = Surface(world, Variant.TOOLS)
        conversation = Conversation(system=surface.system, task="")
        return messages(conversation, surface.actions)[0]["content"]


async def logged_rows(database: Database, judge: Judge, reader: Reader) -> list[PolicyRow]:
    """Policy rows of all that is in the log and judged."""
    await judge_all(database, judge)
    collected = await collect(database, DataSettings(), judge=judge.name)
    return [row async for row in collected_policy_rows(database, collected, reader, PolicySettings())]


def tokenizer_of(system: str) -> Any:
    """Byte-level BPE of what agents and servers say there. `system`, which never changes, is one token."""
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    library: Any = transformers
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(list(_texts()) * 5, trainer)
    made.add_tokens([AddedToken(system, normalized=False)])
    return library.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|pad|>", chat_template=TEMPLATE
    )


def _texts() -> Iterator[str]:
    chance = random.Random(1)
    yield from ["system user assistant"] * 8
    yield from ['Next: describe_tools(["..."]), then call_tool. limit=5 shows more. Not sure which fits.'] * 8
    for errand in ERRANDS * 8:
        yield errand.task
        yield f"{errand.subject.written}(city: str) -> Any\n    {errand.subject.description}"
        yield errand.subject.told(errand.city)
        yield from (action(name, arguments) for name, arguments in careless(errand, chance))


def tiny_model(tokenizer: Any, seed: int) -> Any:
    """Two layers of Qwen3's kind, random weights."""
    import transformers

    library: Any = transformers
    torch.manual_seed(seed)
    config = library.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=24,
        max_position_embeddings=2_048,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = library.Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def school(model: Any, rows: Sequence[PolicyRow], pad: int, *, steps: int, batch: int, seed: int) -> list[float]:
    """Imitate the acts of all rows, whatever they were worth; the loss of each step, in nats per token."""
    chance = random.Random(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    losses: list[float] = []
    model.train()
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = RATE * min(1.0, (step + 1) / 10, 2 * (steps - step) / steps)
        some = [_row(row) for row in chance.sample(list(rows), min(batch, len(rows)))]
        longest = max(len(tokens) for tokens, _ in some)
        ids = torch.tensor([[*tokens, *[pad] * (longest - len(tokens))] for tokens, _ in some])
        weights = torch.tensor([[*each, *[0.0] * (longest - len(each))] for _, each in some])
        # Rows end with what is learned: what pads them on the right is read by nothing that counts.
        logits = model(input_ids=ids).logits[:, :-1]
        each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        loss = (each * weights[:, 1:]).sum() / weights[:, 1:].sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def _row(row: PolicyRow) -> tuple[list[int], list[float]]:
    tokens = [token for segment in row.segments for token in segment.tokens]
    weights = [
        float(weight > 0) for segment in row.segments for weight in (segment.weights or (0.0,) * len(segment.tokens))
    ]
    return tokens, weights
