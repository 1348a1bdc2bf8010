"""Configuration: one YAML file in the Collector's manner. The environment is read here and nowhere else."""

from spanfuse_processor.config.kafka import KafkaSettings
from spanfuse_processor.config.load import load_config
from spanfuse_processor.config.models import Config, ModelPricing, Pricing
from spanfuse_processor.config.otlp import OtlpReceiver, ServerTls

__all__ = ["Config", "KafkaSettings", "ModelPricing", "OtlpReceiver", "Pricing", "ServerTls", "load_config"]
