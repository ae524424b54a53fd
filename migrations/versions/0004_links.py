"""What the shadow adapter ranked beside searches, and the step that an episode was delegated by.

Of episodes before, the delegating step stays in the text of their client. Going back loses both.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("episodes", sa.Column("parent_step", sa.String(40)))
    op.create_index("ix_episodes_parent_step", "episodes", ["parent_step"])
    op.create_table(
        "shadow_decisions",
        sa.Column("step_id", sa.String(40), sa.ForeignKey("steps.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE"), nullable=False),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("adapter", sa.String(64)),
        sa.Column("candidates", sa.Text, nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_shadow_decisions_episode_id", "shadow_decisions", ["episode_id"])


def downgrade() -> None:
    op.drop_table("shadow_decisions")
    op.drop_index("ix_episodes_parent_step", "episodes")
    # In place: were the table made anew, as a batch would, all rows that refer to it would go with the old one.
    op.drop_column("episodes", "parent_step")
