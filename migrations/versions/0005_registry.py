"""Which training made an adapter and who agreed to it; of its states, a canary's share and who changed them.

Of earlier adapters that is not known. Going back loses it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("adapters", sa.Column("run", sa.String(64)))
    op.add_column("adapter_states", sa.Column("share", sa.Float))
    op.add_column("adapter_states", sa.Column("changed_by", sa.Text))
    op.create_table(
        "adapter_approvals",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("adapter_hash", sa.String(64), sa.ForeignKey("adapters.hash", ondelete="CASCADE"), nullable=False),
        sa.Column("approved_by", sa.Text, nullable=False),
        sa.Column("note", sa.Text),
        sa.Column("approved_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_adapter_approvals_adapter_hash", "adapter_approvals", ["adapter_hash"])


def downgrade() -> None:
    op.drop_table("adapter_approvals")
    # In place: were a table made anew, as a batch would, rows that refer to it would go with the old one.
    op.drop_column("adapter_states", "changed_by")
    op.drop_column("adapter_states", "share")
    op.drop_column("adapters", "run")
