"""Accounts and what is taken from them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from dataclasses import field


@dataclass
class Account:
    """Money, and notes about it."""

    balance: int
    journal: list[str] = field(default_factory=list)

    async def note(self, text: str) -> None:
        """Write to the journal, which lets others work meanwhile."""
        await asyncio.sleep(0)
        self.journal.append(text)


async def withdraw(account: Account, amount: int) -> None:
    """Take money from an account."""
    balance = account.balance
    await account.note(f"-{amount}")
    account.balance = balance - amount
