"""What was decided of each search beside the order: how many to show, how sure the router was, and whether it explored.

Of earlier decisions that is not known. Going back loses it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("decisions") as decisions:
        decisions.add_column(sa.Column("asked", sa.Integer))
        decisions.add_column(sa.Column("cut", sa.Integer))
        decisions.add_column(sa.Column("entropy", sa.Float))
        decisions.add_column(sa.Column("sure", sa.Boolean))
        decisions.add_column(sa.Column("explored", sa.Boolean))


def downgrade() -> None:
    with op.batch_alter_table("decisions") as decisions:
        for column in ("explored", "sure", "entropy", "cut", "asked"):
            decisions.drop_column(column)
