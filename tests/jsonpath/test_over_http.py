"""The route and the declared tool: what callers of a running service get."""

import json
import re

from jsonpath.json_harness import dumps
from support.service import Service

ITEMS = [{"id": n, "status": "failed" if n % 2 else "ok", "note": "x" * 500} for n in range(30)]


def stored(service: Service) -> str:
    return str(service.post(dumps({"items": ITEMS}), media_type="application/json")["id"])


def test_values_come_with_their_locations_and_pages_go_on(service: Service) -> None:
    path, params = f"/v1/artifacts/{stored(service)}/json", {"path": "$.items[?@.status=='failed']", "fields": "id"}
    first = service.client.get(path, params={**params, "limit": "10"}).json()
    assert first["text"].split("\n")[:2] == ["¦ $['items'][*] values 1-10 of 15; id", "1: 1"]
    assert first["values"][0]["location"] == "$['items'][1]"
    assert [v["value"] for v in first["values"]] == [{"id": n} for n in range(1, 20, 2)]
    assert (first["total"], first["total_exact"], first["stopped"], first["partial"]) == (15, True, "limit", False)
    last = service.client.get(path, params={**params, "cursor": first["next"]}).json()
    assert [v["value"]["id"] for v in last["values"]] == [21, 23, 25, 27, 29]
    assert last["next"] is None
    at = last["values"][0]["bytes"]
    raw = service.client.get(path.replace("/json", "/read"), params={"unit": "byte", "offset": at["start"], "limit": 9})
    assert raw.json()["text"] == '{"id":21,'


def test_the_bytes_of_a_value_are_those_of_the_view_that_is_named(service: Service) -> None:
    data = json.dumps({"Straße": [{"id": n} for n in range(400)]}, ensure_ascii=False)
    for encoded, view in ((data.encode(), "raw"), (data.encode("utf-16"), "text")):
        path = f"/v1/artifacts/{service.post(encoded, media_type='application/json')['id']}"
        answer = service.client.get(f"{path}/json", params={"path": "$['Straße'][399]"}).json()
        assert answer["view"] == view
        at = answer["values"][0]["bytes"]
        params = {"view": answer["view"], "unit": "byte", "offset": at["start"], "limit": at["end"] - at["start"]}
        assert json.loads(service.client.get(f"{path}/read", params=params).json()["text"]) == {"id": 399}


def test_refusals_are_problems_that_say_what_to_do(service: Service) -> None:
    artifact = stored(service)
    text = str(service.post("no json at all\n" * 500)["id"])
    asked = [(artifact, "items"), (artifact, "$.items[?(@.x"), (text, "$.x"), (artifact, "")]
    got = [service.client.get(f"/v1/artifacts/{a}/json", params={"path": path}) for a, path in asked]
    assert [(answer.status_code, answer.json()["code"]) for answer in got] == [
        (400, "invalid_path"),
        (400, "invalid_path"),
        (422, "not_json"),
        (400, "invalid_request"),
    ]
    assert got[1].json()["position"] == 13


def test_the_declared_tool_reads_by_path(service: Service) -> None:
    arguments = {"artifact_id": stored(service), "path": "$.items[?@.id > 27].id"}
    body = {"name": "read_artifact", "arguments": arguments}
    answer = service.client.post("/v1/tools/call", json=body)
    assert answer.status_code == 200
    assert "28: 28\\n29: 29" in answer.text


def test_an_answer_about_a_damaged_document_is_json(service: Service) -> None:
    for data, path in (('{"status":"ok","rows":[1,2', "$"), ('{"a": NaN,"b":1}', "$.a"), ('{"a":nul}', "$.a")):
        artifact = service.post(data + " " * 8_000, media_type="application/json")["id"]
        answer = service.client.get(f"/v1/artifacts/{artifact}/json", params={"path": path})
        assert answer.status_code == 200
        value = json.loads(answer.content)["values"][0]
        assert (value["complete"], "value" in value) == (False, False)
        assert answer.json()["notices"]


def test_the_declared_tool_goes_on_in_a_long_value_that_is_cut_off(service: Service) -> None:
    artifact = service.post('{"log":"' + "abc def\\n" * 3_000, media_type="application/json")["id"]
    text, offset, parts = "", None, 0
    while offset is not None or not parts:
        arguments = {"artifact_id": artifact, "path": "$.log", **({"offset": offset} if offset else {})}
        answer = service.client.post("/v1/tools/call", json={"name": "read_artifact", "arguments": arguments}).text
        text, parts = text + answer, parts + 1
        found = re.search(r'Next: the same call with offset=\\*"([^"\\]+)', answer)
        offset = found and found[1]
    assert parts > 1
    assert text.count("abc def") == 3_000
    assert "That is the end." in text
