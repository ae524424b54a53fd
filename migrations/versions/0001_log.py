"""All tables of the log.

Going back loses everything: without these tables there is no log.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "streams",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("replica", sa.String(64), nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "gaps",
        sa.Column("stream", sa.String(40), primary_key=True),
        sa.Column("first_seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "episodes",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("stream", sa.String(40), nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("client", sa.Text),
        sa.Column("protocol", sa.String(32)),
        sa.Column("rendering", sa.Integer, nullable=False),
        sa.Column("catalog", sa.String(64), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_episodes_agent_began_at", "episodes", ["agent", "began_at"])
    op.create_index("ix_episodes_began_at_id", "episodes", ["began_at", "id"])
    op.create_table(
        "steps",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), nullable=False),
        sa.Column("parent_id", sa.String(40)),
        sa.Column("stream", sa.String(40), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text),
        sa.Column("outcome", sa.String(20), nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("observation", sa.Text),
        sa.Column("observation_bytes", sa.Integer),
        sa.Column("observation_kept", sa.Integer),
        sa.Column("observation_hash", sa.String(64)),
        sa.Column("action_tokens", sa.Integer),
        sa.Column("observation_tokens", sa.Integer),
        sa.Column("revealed", sa.Text),
        sa.Column("catalog", sa.String(64), nullable=False),
        sa.Column("level", sa.String(16), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("duration_ms", sa.Float, nullable=False),
        sa.UniqueConstraint("stream", "seq"),
    )
    op.create_index("ix_steps_episode_id_started_at", "steps", ["episode_id", "started_at"])
    op.create_index("ix_steps_started_at", "steps", ["started_at"])
    op.create_table(
        "calls",
        sa.Column("step_id", sa.String(40), sa.ForeignKey("steps.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), nullable=False),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("written", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("result_bytes", sa.Integer),
        sa.Column("result_kept", sa.Integer),
        sa.Column("result_hash", sa.String(64)),
        sa.Column("outcome", sa.String(20), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("duration_ms", sa.Float, nullable=False),
    )
    op.create_index("ix_calls_episode_id_server_tool", "calls", ["episode_id", "server", "tool"])
    op.create_index(
        "ix_calls_server_tool_outcome_started_at_duration_ms",
        "calls",
        ["server", "tool", "outcome", "started_at", "duration_ms"],
    )
    op.create_index("ix_calls_started_at", "calls", ["started_at"])
    op.create_table(
        "decisions",
        sa.Column("step_id", sa.String(40), sa.ForeignKey("steps.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), nullable=False),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("adapter", sa.String(64)),
        sa.Column("query", sa.Text),
        sa.Column("task", sa.Text),
        sa.Column("servers", sa.Text),
        sa.Column("candidates", sa.Text),
        sa.Column("shown", sa.Text),
        sa.Column("propensities", sa.Text),
        sa.Column("degraded", sa.Text),
        sa.Column("catalog", sa.String(64), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("duration_ms", sa.Float, nullable=False),
    )
    op.create_index("ix_decisions_episode_id", "decisions", ["episode_id"])
    op.create_table(
        "endings",
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("reason", sa.String(16), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("outcome", sa.String(16)),
        sa.Column("answer", sa.Text),
        sa.Column("task", sa.Text),
        sa.Column("task_source", sa.String(16)),
        sa.Column("level", sa.String(16), nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("tokens_seen", sa.Integer, nullable=False),
        sa.Column("tokens_eager", sa.Integer),
    )
    op.create_index("ix_endings_ended_at", "endings", ["ended_at"])
    op.create_table(
        "snapshots",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("servers", sa.Text, nullable=False),
        sa.Column("tools", sa.Text, nullable=False),
        sa.Column("introduction", sa.Text),
        sa.Column("introduction_tokens", sa.Integer, nullable=False),
        sa.Column("eager_tokens", sa.Integer, nullable=False),
    )
    op.create_table(
        "definitions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
    )
    op.create_table(
        "rubrics",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("target", sa.Text),
        sa.Column("writer", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "judgements",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), nullable=False),
        sa.Column("rubric_hash", sa.String(64), sa.ForeignKey("rubrics.hash", ondelete="RESTRICT"), nullable=False),
        sa.Column("judge", sa.Text, nullable=False),
        sa.Column("prompt_hash", sa.String(64)),
        sa.Column("seed", sa.Integer),
        sa.Column("verdicts", sa.Text, nullable=False),
        sa.Column("subtotals", sa.Text, nullable=False),
        sa.Column("reward", sa.Float),
        sa.Column("cost", sa.Text),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_judgements_episode_id_created_at", "judgements", ["episode_id", "created_at"])
    op.create_index("ix_judgements_rubric_hash", "judgements", ["rubric_hash"])
    op.create_table(
        "labels",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), nullable=False),
        sa.Column("step_id", sa.String(40)),
        sa.Column("rubric_hash", sa.String(64)),
        sa.Column("criterion", sa.String(64)),
        sa.Column("labeller", sa.Text, nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.Column("note", sa.Text),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_labels_episode_id_created_at", "labels", ["episode_id", "created_at"])
    op.create_table(
        "adapters",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("base_hash", sa.String(64), nullable=False),
        sa.Column("data_hash", sa.String(64), nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("metrics", sa.Text),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "adapter_states",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("adapter_hash", sa.String(64), sa.ForeignKey("adapters.hash", ondelete="CASCADE"), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_adapter_states_adapter_hash_changed_at", "adapter_states", ["adapter_hash", "changed_at"])
    op.create_table(
        "deletions",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("agent", sa.Text),
        sa.Column("before", sa.DateTime(timezone=True)),
        sa.Column("since", sa.DateTime(timezone=True)),
        sa.Column("episodes", sa.Text),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    # Those first that refer to others.
    for table in (
        "deletions",
        "adapter_states",
        "adapters",
        "labels",
        "judgements",
        "rubrics",
        "definitions",
        "snapshots",
        "endings",
        "decisions",
        "calls",
        "steps",
        "episodes",
        "gaps",
        "streams",
    ):
        op.drop_table(table)
