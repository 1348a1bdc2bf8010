"""E-mail, by the standard library on a thread: text and HTML, with all that belongs to one alert in one thread of mails."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate
from html import escape
from typing import Final

from spanfuse_processor.config.alerts import Smtp
from spanfuse_processor.exporters.alerts.model import Notice
from spanfuse_processor.exporters.alerts.sender import LaterError, RefusedError
from spanfuse_processor.exporters.alerts.text import Body, body, line

MAX_SUBJECT: Final = 200


class SmtpSender:
    """See `sender.Sender`.

    Args:
        timeout_s: of each step of the exchange, seconds.
    """

    kind = "smtp"

    def __init__(self, settings: Smtp, base_url: str, timeout_s: float) -> None:
        self._settings, self._base_url, self._timeout_s = settings, base_url, timeout_s

    async def send(self, notice: Notice) -> None:
        """Send it, once."""
        mail = message(notice, self._settings, self._base_url)
        try:
            await asyncio.to_thread(self._send, mail)
        except ssl.SSLCertVerificationError as error:
            raise RefusedError(f"its certificate is not trusted: {error.verify_message}") from None
        except smtplib.SMTPNotSupportedError as error:
            raise RefusedError(str(error)) from None
        except smtplib.SMTPResponseException as error:
            raise _failed(error.smtp_code) from None
        except smtplib.SMTPRecipientsRefused as error:
            raise _failed(max(code for code, _ in error.recipients.values())) from None
        except (OSError, smtplib.SMTPException) as error:
            raise LaterError(f"it does not answer ({type(error).__name__})") from None

    def _send(self, mail: EmailMessage) -> None:
        host, _, port = self._settings.server.rpartition(":")
        host, at = host.strip("[]"), int(port)
        if self._settings.tls == "tls":
            with smtplib.SMTP_SSL(host, at, timeout=self._timeout_s, context=self._context()) as server:
                self._hand_over(server, mail)
            return
        with smtplib.SMTP(host, at, timeout=self._timeout_s) as server:
            if self._settings.tls == "starttls":
                server.starttls(context=self._context())
            self._hand_over(server, mail)

    def _hand_over(self, server: smtplib.SMTP, mail: EmailMessage) -> None:
        if self._settings.username:
            server.login(self._settings.username, self._settings.password.get_secret_value())
        server.send_message(mail)

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._settings.ca_file or None)


def _failed(code: int) -> RefusedError | LaterError:
    """By the first digit: 4 is for now, 5 for good."""
    return RefusedError(f"SMTP {code}") if code >= 500 else LaterError(f"SMTP {code}")


def message(notice: Notice, settings: Smtp, base_url: str = "") -> EmailMessage:
    """The mail."""
    said, alert = body(notice, base_url), notice.alert
    domain = settings.sender.rpartition("@")[2]
    first = f"<spanfuse-{alert.id}@{domain}>"
    mail = EmailMessage()
    mail["From"], mail["To"] = settings.sender, ", ".join(settings.to)
    mail["Subject"] = line(f"[spanfuse] {said.title}", MAX_SUBJECT)
    mail["Date"] = formatdate(alert.last_ns / 1e9)
    mail["Auto-Submitted"] = "auto-generated"
    mail["Message-ID"] = (
        first
        if notice.what == "firing" and not alert.receivers
        else f"<spanfuse-{alert.id}-{notice.what}-{alert.last_ns}@{domain}>"
    )
    if mail["Message-ID"] != first:
        mail["In-Reply-To"] = mail["References"] = first
    mail.set_content(as_text(said))
    mail.add_alternative(as_html(said), subtype="html")
    return mail


def as_text(said: Body) -> str:
    """For people without HTML."""
    parts = [said.title, "", said.message, "", *(f"{name}: {value}" for name, value in said.facts)]
    if said.command:
        parts += ["", "To release it:", f"    {said.command}"]
    return "\n".join([*parts, *(["", said.link] if said.link else []), ""])


def as_html(said: Body) -> str:
    """The same in HTML; all that is shown is escaped."""
    rows = "".join(
        f'<tr><th align="left">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in said.facts
    )
    release = f"<p>To release it:</p><pre>{escape(said.command)}</pre>" if said.command else ""
    more = f'<p><a href="{escape(said.link)}">Open in spanfuse</a></p>' if said.link else ""
    head = '<!doctype html><html><head><meta charset="utf-8"></head><body>'
    words = f"<h3>{escape(said.title)}</h3><p>{escape(said.message)}</p>"
    return f"{head}{words}<table>{rows}</table>{release}{more}</body></html>\n"
