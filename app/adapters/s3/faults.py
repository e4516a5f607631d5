"""Errors that only S3 has, with what to do about each."""

from botocore.exceptions import ClientError

from app.adapters.aws.client import FORBIDDEN, code_of

NO_BUCKET = "NoSuchBucket"
NO_OBJECT = frozenset({"NoSuchKey", "404"})
"""Error codes for a missing object. A HEAD request's answer has no body, so its status is the code."""

NO_UPLOAD = "NoSuchUpload"
BEYOND_THE_END = frozenset({"InvalidRange", "416"})
ELSEWHERE = frozenset(
    {
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "IncorrectEndpoint",
        "PermanentRedirect",
        "301",
        "400",
    }
)
"""Error codes for a bucket in another region than the one addressed."""

FULL = frozenset({"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "507"})

RIGHTS = {
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectsV2": "s3:ListBucket",
}
"""The right that an operation needs; all others need s3:PutObject."""


def refusal(error: ClientError) -> str | None:
    code = code_of(error)
    if code == NO_BUCKET:
        return "it does not exist; create it, or set DAIRA_BLOB_URL and DAIRA_AWS_REGION to where it is"
    if code in FORBIDDEN:
        right = RIGHTS.get(error.operation_name, "s3:PutObject")
        return f"these credentials may not use it so; allow {right} on it (and on its KMS key, if it has one)"
    if code in ELSEWHERE:
        return f"it is in another region; set DAIRA_AWS_REGION to that ({code})"
    if code == NO_UPLOAD:
        return "the upload was ended by another process; send it again"
    if code in FULL:
        return f"it is full ({code})"
    return None
