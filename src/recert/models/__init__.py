"""What can be certified, how it is named on a command line, and how it is identified."""

from recert.models.loading import LoadedModel, load_model
from recert.models.registry import ModelEntry, available_models, build_model
from recert.models.specs import SPEC_FORMS, parse_spec

__all__ = ["SPEC_FORMS", "LoadedModel", "ModelEntry", "available_models", "build_model", "load_model", "parse_spec"]
