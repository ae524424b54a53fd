"""What came of each run of training, and examples that go with the episodes whose words they are in.

Of earlier runs it is only on the disk where they ran. Going back loses it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "training_reports",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("adapter_hash", sa.String(64), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("report", sa.Text, nullable=False),
    )
    op.create_index("ix_training_reports_run", "training_reports", ["run"])
    op.create_table(
        "training_examples",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("report_id", sa.Integer, sa.ForeignKey("training_reports.id", ondelete="CASCADE"), nullable=False),
        sa.Column("episode_id", sa.String(40), sa.ForeignKey("episodes.id", ondelete="CASCADE")),
        sa.Column("example", sa.Text, nullable=False),
    )
    op.create_index("ix_training_examples_report_id", "training_examples", ["report_id"])
    op.create_index("ix_training_examples_episode_id", "training_examples", ["episode_id"])


def downgrade() -> None:
    op.drop_table("training_examples")
    op.drop_table("training_reports")
