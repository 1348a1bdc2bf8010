"""Configuration: one YAML file in the Collector's manner. The environment is read here and nowhere else."""

from spanfuse_processor.config.kafka import KafkaSettings
from spanfuse_processor.config.load import load_config
from spanfuse_processor.config.models import Config, ModelPricing, OtlpReceiver, Pricing

__all__ = ["Config", "KafkaSettings", "ModelPricing", "OtlpReceiver", "Pricing", "load_config"]
