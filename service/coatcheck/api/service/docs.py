"""What the OpenAPI document says of health and the description of the service. Values only; see `docs`."""

from typing import Final

from coatcheck.api.artifacts import wire as views
from coatcheck.api.route import Doc, DocumentedAnswer
from coatcheck.core.errors import Code

LIVE: Final = Doc(
    operation_id="checkLiveness",
    tag="Service",
    summary="Is the process alive?",
    description="Answers as long as the process does. Asks nothing of storage.",
    answers=(DocumentedAnswer(status=200, description="It is.", model=views.HealthView),),
)
READY: Final = Doc(
    operation_id="checkReadiness",
    tag="Service",
    summary="Can it serve?",
    description="Whether the database and the store answer, with this release's schema.",
    answers=(DocumentedAnswer(status=200, description="It can.", model=views.HealthView),),
    problems=(Code.SCHEMA_OUTDATED,),
)
METRICS: Final = Doc(
    operation_id="getMetrics",
    tag="Service",
    summary="Numbers for monitoring",
    description=(
        "Counters and gauges of this process in the text format of Prometheus, or in OpenMetrics where that is "
        "accepted. Needs the scope `admin` unless the administrator has opened it; without keys it is open. No "
        "name in it is a caller's."
    ),
    answers=(DocumentedAnswer(status=200, description="The metrics.", other=("text/plain",)),),
)
DOCUMENT: Final = Doc(
    operation_id="getOpenApi",
    tag="Service",
    summary="This document",
    description="The OpenAPI 3.1 document of this release.",
    answers=(DocumentedAnswer(status=200, description="The document.", model=views.OpenApi),),
)
