"""`driftq config`: every setting, its value and where the value comes from."""

from typing import Annotated, Literal

import typer

from driftq.cli.screen import Json, examples, say_json, show, table
from driftq.settings import PROFILES, Setting, SettingSource, load_settings, without_password

CONFIG_EXAMPLES = examples("driftq config", "driftq config --profile v1-dev --json")

ProfileName = Literal["default", "v1-dev"]
ProfileOption = Annotated[
    ProfileName | None, typer.Option("--profile", help="The named set of limits (else DRIFTQ_PROFILE).")
]


def config(profile: ProfileOption = None, as_json: Json = False) -> None:
    """List every setting with its value, its default and its source."""
    settings = load_settings(PROFILES[profile] if profile else None)
    if as_json:
        listed = [
            {
                "name": setting.spec.name,
                "default": setting.spec.default,
                "value": _shown(setting),
                "source": setting.source,
                "allowed": setting.spec.kind.allowed,
                "meaning": setting.spec.meaning,
            }
            for setting in settings.in_force
        ]
        say_json({"profile": settings.profile, "settings": listed})
        return
    shown = table(f"profile {settings.profile}", "name", "value", "from", "default", "meaning")
    for setting in settings.in_force:
        spec = setting.spec
        shown.add_row(
            spec.name,
            str(_shown(setting) if setting.value is not None else spec.unset),
            _origin(setting, settings.profile),
            str(spec.default if spec.default is not None else spec.unset),
            spec.meaning,
        )
    show(shown)


def _shown(setting: Setting) -> int | str | None:
    value = setting.value
    if setting.spec.secret and value is not None:
        return "***"
    return without_password(value) if isinstance(value, str) else value


def _origin(setting: Setting, profile: str) -> str:
    return f"profile {profile}" if setting.source is SettingSource.PROFILE else str(setting.source)
