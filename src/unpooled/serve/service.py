"""A party's service, put together: its runs, reviews, and the exchange of letters with other parties' services."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from unpooled.serve.background import Background
from unpooled.serve.context import Context
from unpooled.serve.folder import StateFolder
from unpooled.serve.jobs import news
from unpooled.serve.messages import JOB_MESSAGES
from unpooled.serve.peering.calling import Calling
from unpooled.serve.peering.credentials import Credentials
from unpooled.serve.peering.door import Door
from unpooled.serve.peering.exchange import Exchanges
from unpooled.serve.peering.post import Post
from unpooled.serve.peering.record import ServiceLedger
from unpooled.serve.reviewing.review import Reviewer
from unpooled.serve.running.keeper import Keeper
from unpooled.serve.settings import ServiceSettings
from unpooled.serve.state.database import Database
from unpooled.serve.table_check import Checker


class Service:
    """A service at work: made and closed by one process, which holds the lock of its state folder."""

    def __init__(self, folder: StateFolder, settings: ServiceSettings, database: Database) -> None:
        self.context = Context(settings, folder, database)
        self._background = Background(folder)
        self.reviewer = Reviewer(self.context, self._background)
        self.checker = Checker(self.context, self._background)
        self.keeper = Keeper(self.context, changed=self._letters)
        self._held = ExitStack()
        with ExitStack() as begun:
            ledger = begun.enter_context(ServiceLedger(folder.ledger, settings.party))
            handle, begun_anew = (partial(act, self.context) for act in (news.handle, news.begun_anew))
            post = Post(database, JOB_MESSAGES, handle, self.wake, begun_anew)
            exchanges = Exchanges(settings.party, post, database, ledger)
            credentials = Credentials(folder.certificates, settings.party)
            self.calling = Calling(settings.party, credentials, exchanges, database, polls=settings.address is None)
            if address := settings.listen or settings.address:
                at = self.keeper.connections_of
                door = Door(settings.party, address, credentials, exchanges, database, at)
                door.open()
                begun.callback(door.close)
            self.calling.open()
            begun.callback(self.calling.close)
            begun.callback(self._background.close)
            self.keeper.open()
            begun.callback(self.keeper.close)
            self._held = begun.pop_all()

    def wake(self) -> None:
        """Something has changed: look at once what comes next, and whether there are letters to send."""
        self.keeper.wake()
        self.calling.wake()

    def close(self) -> None:
        """End all runs, so that they can be resumed, and all threads; letters that were not sent are kept."""
        self._held.close()

    def _letters(self) -> None:
        self.calling.wake()
