"""What judging needs: what rubrics are attached to and made from, families of tasks, claims, and what judges are
trusted by.

Of what was judged before, the scope is not known, and is written as `unknown`: its rewards stand with no others.
Several judgements by one judge become its repeats, in their order. A rubric that was for one episode becomes one that
was made from it, since its criteria may quote it; those for a family or for all are attached there.

Going back loses what only these tables keep, and the labels of people who could not tell.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NEW_TABLES = (
    "calibrations",
    "gold_runs",
    "batches",
    "claims",
    "filings",
    "families",
    "rubric_sources",
    "attachments",
)


def upgrade() -> None:
    _make_tables()
    op.execute(
        "INSERT INTO rubric_sources (rubric_hash, episode_id) "
        "SELECT hash, target FROM rubrics WHERE scope = 'task' AND length(target) BETWEEN 1 AND 40"
    )
    op.execute(
        "INSERT INTO attachments (rubric_hash, scope, target, attached_at) "
        "SELECT hash, scope, CASE scope WHEN 'family' THEN target END, created_at FROM rubrics "
        "WHERE scope = 'default' OR (scope = 'family' AND length(target) BETWEEN 1 AND 40) ORDER BY created_at, hash"
    )
    with op.batch_alter_table("rubrics") as rubrics:
        rubrics.drop_column("scope")
        rubrics.drop_column("target")
    with op.batch_alter_table("judgements") as judgements:
        judgements.add_column(sa.Column("repeat", sa.Integer))
        judgements.add_column(sa.Column("scope", sa.String(48)))
        judgements.add_column(sa.Column("unrewarded", sa.Text))
        judgements.add_column(sa.Column("credits", sa.Text))
        judgements.add_column(sa.Column("batch", sa.String(40)))
    op.execute(
        "UPDATE judgements SET scope = 'unknown', repeat = (SELECT count(*) FROM judgements AS earlier "
        "WHERE earlier.episode_id = judgements.episode_id AND earlier.rubric_hash = judgements.rubric_hash "
        "AND earlier.judge = judgements.judge AND (earlier.created_at < judgements.created_at "
        "OR (earlier.created_at = judgements.created_at AND earlier.id < judgements.id)))"
    )
    with op.batch_alter_table("judgements") as judgements:
        judgements.alter_column("repeat", existing_type=sa.Integer, nullable=False)
        judgements.alter_column("scope", existing_type=sa.String(48), nullable=False)
        judgements.create_unique_constraint(
            "uq_judgements_episode_id_rubric_hash_judge_repeat", ["episode_id", "rubric_hash", "judge", "repeat"]
        )
    with op.batch_alter_table("labels") as labels:
        labels.alter_column("value", existing_type=sa.Float, nullable=True)


def _make_tables() -> None:
    op.create_table(
        "attachments",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("rubric_hash", sa.String(64), sa.ForeignKey("rubrics.hash", ondelete="CASCADE")),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("target", sa.String(40)),
        sa.Column("attached_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_attachments_rubric_hash", "attachments", ["rubric_hash"])
    op.create_index("ix_attachments_scope_target", "attachments", ["scope", "target"])
    op.create_table(
        "rubric_sources",
        sa.Column("rubric_hash", sa.String(64), sa.ForeignKey("rubrics.hash", ondelete="CASCADE"), primary_key=True),
        sa.Column("episode_id", sa.String(40), primary_key=True),
    )
    op.create_index("ix_rubric_sources_episode_id", "rubric_sources", ["episode_id"])
    op.create_table(
        "families",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("signature", sa.Text, nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "filings",
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("task_key", sa.String(40)),
        sa.Column("family", sa.String(40)),
        sa.Column("filed_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_filings_family", "filings", ["family"])
    op.create_index("ix_filings_task_key", "filings", ["task_key"])
    op.create_table(
        "claims",
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("judge", sa.String(200), primary_key=True),
        sa.Column("repeat", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "batches",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("judge", sa.Text, nullable=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("accepted", sa.Integer, nullable=False),
        sa.Column("episodes", sa.Integer, nullable=False),
        sa.Column("canaries", sa.Text, nullable=False),
        sa.Column("note", sa.Text),
    )
    op.create_table(
        "gold_runs",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("judge", sa.Text, nullable=False),
        sa.Column("gold_hash", sa.String(64), nullable=False),
        sa.Column("agreement", sa.Text, nullable=False),
        sa.Column("accepted", sa.Integer, nullable=False),
        sa.Column("note", sa.Text),
        sa.Column("ran_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_gold_runs_judge_ran_at", "gold_runs", ["judge", "ran_at"])
    op.create_table(
        "calibrations",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("judge", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("labels", sa.Integer, nullable=False),
        sa.Column("fitted_at", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    op.execute("DELETE FROM labels WHERE value IS NULL")
    with op.batch_alter_table("labels") as labels:
        labels.alter_column("value", existing_type=sa.Float, nullable=False)
    with op.batch_alter_table("judgements") as judgements:
        judgements.drop_constraint("uq_judgements_episode_id_rubric_hash_judge_repeat", type_="unique")
        for column in ("batch", "credits", "unrewarded", "scope", "repeat"):
            judgements.drop_column(column)
    _put_back_scopes()
    for table in NEW_TABLES:
        op.drop_table(table)


def _put_back_scopes() -> None:
    """Where a rubric is attached now; for one of its sources where it has no such place."""
    with op.batch_alter_table("rubrics") as rubrics:
        rubrics.add_column(sa.Column("scope", sa.String(16)))
        rubrics.add_column(sa.Column("target", sa.Text))
    op.execute(
        "UPDATE rubrics SET scope = 'task', "
        "target = (SELECT min(episode_id) FROM rubric_sources WHERE rubric_hash = rubrics.hash)"
    )
    for scope in ("family", "default"):
        latest = f"SELECT max(id) FROM attachments WHERE scope = '{scope}' GROUP BY target"
        op.execute(
            f"UPDATE rubrics SET scope = '{scope}', target = (SELECT min(target) FROM attachments "
            f"WHERE rubric_hash = rubrics.hash AND id IN ({latest})) "
            f"WHERE hash IN (SELECT rubric_hash FROM attachments WHERE id IN ({latest}))"
        )
    with op.batch_alter_table("rubrics") as rubrics:
        rubrics.alter_column("scope", existing_type=sa.String(16), nullable=False)
