"""What can be set from outside: knobs in the environment and named profiles, as one frozen object."""

from driftq.settings.knob import Knob, Problem, SettingsRefused, UnknownName
from driftq.settings.load import Setting, Settings, Source, load_settings, load_url
from driftq.settings.profile import PROFILES, Profile
from driftq.settings.table import KNOBS

__all__ = [
    "KNOBS",
    "PROFILES",
    "Knob",
    "Problem",
    "Profile",
    "Setting",
    "Settings",
    "SettingsRefused",
    "Source",
    "UnknownName",
    "load_settings",
    "load_url",
]
