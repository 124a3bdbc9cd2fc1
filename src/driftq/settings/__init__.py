"""The settings: environment variables and named profiles, as one frozen object."""

from driftq.model.options.pipeline import PipelineOptions, PublisherSettings, RegistrySettings
from driftq.model.options.serving import ServeSettings
from driftq.settings.address import is_postgres, without_password
from driftq.settings.load import (
    Setting,
    Settings,
    SettingSource,
    cache_folder,
    java_home,
    load_credentials,
    load_data,
    load_keys_file,
    load_log,
    load_settings,
    load_transport,
    load_url,
    prefer_python,
    uses_spark_connect,
    wants_traces,
)
from driftq.settings.profile import PROFILES, Profile
from driftq.settings.spec import Problem, SettingSpec, SettingsRefused, UnknownName
from driftq.settings.table import SETTINGS

__all__ = [
    "PROFILES",
    "SETTINGS",
    "PipelineOptions",
    "Problem",
    "Profile",
    "PublisherSettings",
    "RegistrySettings",
    "ServeSettings",
    "Setting",
    "SettingSource",
    "SettingSpec",
    "Settings",
    "SettingsRefused",
    "UnknownName",
    "cache_folder",
    "is_postgres",
    "java_home",
    "load_credentials",
    "load_data",
    "load_keys_file",
    "load_log",
    "load_settings",
    "load_transport",
    "load_url",
    "prefer_python",
    "uses_spark_connect",
    "wants_traces",
    "without_password",
]
