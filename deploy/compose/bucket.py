"""Makes the bucket on the local server that imitates S3, once it answers: `bucket.py NAME`."""

import os
import sys

import boto3
from botocore.config import Config

patient = Config(s3={"addressing_style": "path"}, retries={"mode": "standard", "total_max_attempts": 10})
client = boto3.client("s3", endpoint_url=os.environ["DAIRA_AWS_ENDPOINT_URL"], config=patient)
client.create_bucket(Bucket=sys.argv[1], CreateBucketConfiguration={"LocationConstraint": client.meta.region_name})
