"""Money that is taken by one, and by two at once."""

from __future__ import annotations

import asyncio

from bank.accounts import Account
from bank.accounts import withdraw


def test_withdraw() -> None:
    """It is gone, and noted."""
    account = Account(100)
    asyncio.run(withdraw(account, 30))
    assert (account.balance, account.journal) == (70, ["-30"])


async def both(account: Account) -> None:
    """Two people at two machines."""
    await asyncio.gather(withdraw(account, 30), withdraw(account, 50))


def test_withdraw_twice_at_once() -> None:
    """Both amounts are gone."""
    account = Account(100)
    asyncio.run(both(account))
    assert account.balance == 20
