"""The passkeys of votes on approvals (W3C Web Authentication Level 3, section 7.2)."""

import base64
import re
from hashlib import sha256

from canonical import NotCanonical, canonical, parse_object, utf16
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from keys import strict_base64

ADMIN = "the admin token"
TOOL = "escalations/vote@1"
OPEN, REVOKE, SECOND_SET = "escalations/open@1", "escalations/revoke@1", "escalations/second-set@1"
DECISIONS = ("escalations/decide@1", "escalations/review@1")
OF_VOTES = (TOOL, OPEN, REVOKE, SECOND_SET, *DECISIONS)
STATED = re.compile(r"(?:approved|confirmed): ([0-9]{1,9}) to approve")
ORIGIN = re.compile(r"https?://([a-z0-9._-]+)(?::([1-9][0-9]{0,4}))?")
IPV4 = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$")
ASSERTION = ("public_key", "origin", "authenticator_data", "client_data_json", "signature")
BINDINGS = ("present", "supported", "notSupported")
NONCE = re.compile(r"([0-9]{1,16})\.([0-9a-f]{32})\.[0-9a-f]{32}")
# When a challenge may be signed after it was made, with the difference of clocks, in milliseconds.
EARLIEST, LATEST = -60_000, 660_000
DATA_BYTES, USER_FLAGS = 37, 0x05


def proof_failure(record, at):
    """Why the passkey of a vote recorded at this time does not prove it; None if it does, or if it claims no passkey."""
    event = record.get("event")
    if record.get("tool") != TOOL or not isinstance(event, dict):
        return None
    passkey, claims = event.get("passkey"), event.get("proof") == "passkey"
    if (record.get("error") is not None) != (event.get("proof") == "late"):
        return "the vote came too late, or it did not"
    if "passkey" not in event and not claims:
        return None
    if not isinstance(passkey, dict) or not claims:
        return "the vote and its passkey do not belong together"
    if not is_said(record, event):
        return "the record says something else than its vote"
    vote = {name: event.get(name) for name in ("fingerprint", "vote", "comment", "reviewer")}
    vote.update(escalation=record.get("escalation_id"), input_sha256=record.get("input_sha256"))
    vote.update(log_id=record.get("log_id"), nonce=passkey.get("nonce"))
    for name, value in vote.items():
        if not isinstance(value, str) and not (value is None and name in ("comment", "log_id")):
            return "members of the vote are missing"
    batch = passkey.get("batch", [])
    names = set(passkey) - {"nonce", "batch"}
    if names != set(ASSERTION) or not all(isinstance(passkey[name], str) for name in names) or not are_texts(batch):
        return "members of the vote are missing"
    principal = record.get("principal")
    roles = principal.get("roles") if isinstance(principal, dict) else None
    if roles is not None and not are_texts(roles):
        return "the roles are not a list of names"
    return nonce_failure(passkey["nonce"], at, roles or []) or assertion_failure(vote, passkey)


def are_texts(value):
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def nonce_failure(nonce, at, roles):
    match = NONCE.fullmatch(nonce)
    if match is None:
        return "the nonce is not one of a challenge"
    if at is None or not EARLIEST <= at - int(match[1]) <= LATEST:
        return "its challenge is of another time"
    digest = sha256(canonical(sorted(set(roles), key=utf16)).encode("utf-8")).hexdigest()[:32]
    return None if digest == match[2] else "its challenge is for other roles"


def is_said(record, event):
    """Whether decision, details and person of the record are those of the vote."""
    vote, comment, reviewer = event.get("vote"), event.get("comment"), event.get("reviewer")
    policy, principal, findings = record.get("policy"), record.get("principal"), record.get("findings")
    if not isinstance(policy, dict) or policy.get("decision") != ("allow" if vote == "approve" else "deny"):
        return False
    has_user = isinstance(principal, dict) and "user" in principal
    if has_user:
        user = principal["user"]
        if not isinstance(user, str) or not isinstance(reviewer, str) or not reviewer.startswith(f"{user} of "):
            return False
    elif reviewer != ADMIN:
        return False
    detail = f"{vote}{'' if has_user else f' by {ADMIN}'}{'' if comment is None else f': {comment}'}"
    if not isinstance(findings, list) or not findings:
        return False
    return all(isinstance(one, dict) and one.get("detail") == detail for one in findings)


def assertion_failure(vote, passkey):
    data, client_data, signature = (base64url(passkey[name]) for name in ASSERTION[2:])
    key, origin = strict_base64(passkey["public_key"]), passkey["origin"]
    if None in (data, client_data, signature, key):
        return "a member of the proof is not in its encoding"
    try:
        client, signed = parse_object(client_data.decode("utf-8")), canonical(vote).encode("utf-8")
    except (UnicodeDecodeError, NotCanonical):
        client = None
    if client is None:
        return "the data of the client is not JSON"
    if client.get("type") != "webauthn.get":
        return "the data of the client is not of an assertion"
    challenge = hash_of(signed)
    if "batch" in passkey:
        if challenge not in passkey["batch"]:
            return "the vote is none of those that were signed"
        challenge = hash_of(canonical(passkey["batch"]).encode("utf-8"))
    if client.get("challenge") != challenge:
        return "the challenge is not the hash of the vote"
    binding = client.get("tokenBinding")
    if not is_falsy(binding) and (not isinstance(binding, dict) or binding.get("status") not in BINDINGS):
        return "the token binding has an unknown state"
    if client.get("crossOrigin") is True or not is_falsy(client.get("topOrigin")):
        return "the page is framed"
    if client.get("origin") != origin:
        return "the origin of the page is another"
    host = ORIGIN.fullmatch(origin)
    if host is None or IPV4.search(host[1]) or not is_port(origin.partition(":")[0], host[2]):
        return "the origin is not that of a page with a host name"
    if len(data) != DATA_BYTES:
        return f"the authenticator data has other than {DATA_BYTES} bytes"
    if data[:32] != sha256(host[1].encode()).digest():
        return "the relying party is another"
    if data[32] & USER_FLAGS != USER_FLAGS:
        return "the user was not verified"
    return None if has_signed(key, data + sha256(client_data).digest(), signature) else "the signature is not of the passkey"


def is_port(scheme, port):
    """Whether an origin names this port: not the usual one of its scheme."""
    return port is None or (int(port) < 2**16 and port != {"http": "80", "https": "443"}[scheme])


def is_falsy(value):
    """As in ECMAScript, of values of JSON."""
    return value is None or value is False or (not isinstance(value, (list, dict)) and value in (0, ""))


def hash_of(data):
    return base64.urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()


def has_signed(der, message, signature):
    """ES256, EdDSA and RS256."""
    try:
        key = load_der_public_key(der)
        # Bytes may follow the key, and a point may be compressed.
        if key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != der:
            return False
        if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, message)
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
        else:
            return False
        return True
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False


def base64url(text):
    """The bytes of base64url without padding, None for any other text."""
    if re.search(r"[+/=]", text):
        return None
    return strict_base64(text.translate(str.maketrans("-_", "+/")) + "=" * (-len(text) % 4))


class VoteCheck:
    """Whether votes are by the people who have to cast them, for a reader who knows their passkeys."""

    def __init__(self, reviewers, has_removals):
        self.passkeys, self.voters, self.has_removals = reviewers["passkeys"], reviewers, has_removals
        self.enrolments, self.approved, self.opened = {}, {}, set()
        self.first_sets, self.second_sets = {}, {}
        self.unjudged = 0  # votes of which the log does not state by which rule they are cast

    def failure(self, record):
        """Why a valid record is not what passkeys prove, None if it is. Takes the records in the order of the log."""
        tool, escalation = record.get("tool"), str(record.get("escalation_id"))
        event = record["event"] if isinstance(record.get("event"), dict) else {}
        if tool == TOOL:
            return self.vote_failure(escalation, record, event)
        if tool == OPEN:
            self.opened.add(escalation)
            enrolment = event.get("enrolment")
            # The statement of an enrolment is what its votes sign, and it has no member if there is no set.
            stated = {"approval_set_id": None, **enrolment} if isinstance(enrolment, dict) else event
            if "approval_set_id" in stated:
                self.first_sets.setdefault(escalation, set_of(stated))
            self.enrol(escalation, enrolment)
        elif tool == SECOND_SET and set_of(event) is not None:
            self.second_sets.setdefault(escalation, set_of(event))
        elif tool == REVOKE:
            self.enrolments.pop(escalation, None)
        elif tool in DECISIONS and record["policy"].get("decision") == "allow":
            return self.decision_failure(escalation, record.get("findings"))
        return None

    def voter_failure(self, escalation, name, record):
        """Why the policy gives the reviewer no vote on the escalation; None if it does, or if that cannot be known."""
        sets, reviewer_roles = self.voters["approval_sets"], self.voters["reviewer_roles"]
        default_set = self.voters["default_set"]
        if sets is None and reviewer_roles is None and default_set is None:
            return None
        if escalation not in self.first_sets:
            self.unjudged += 1
            return None
        first, second = self.first_sets[escalation], self.second_sets.get(escalation)
        if first is None and default_set is not None:
            return "its escalation names no approval set, and the policy has one"
        principal = record.get("principal")
        roles = principal.get("roles") if isinstance(principal, dict) else None
        roles = roles if isinstance(roles, list) else []
        if first is None and (name == ADMIN or reviewer_roles is None or any(role in roles for role in reviewer_roles)):
            return None
        named = [set_id for set_id in (first, second) if set_id is not None]
        known = [sets[set_id] for set_id in named if set_id in (sets or {})]
        by_role = any(role in roles for one in known for role in one.get("reviewer_roles", []))
        by_name = any(is_of({"user": user}, name, record) for one in known for user in one.get("users", []))
        if by_role or by_name or (named and sets is None):
            return None
        return f"{name!r} is not in the approval set" if named else f"{name!r} has no role of a reviewer"

    def enrol(self, escalation, enrolment):
        if isinstance(enrolment, dict) and isinstance(enrolment.get("reviewer"), str):
            digest = sha256(canonical(enrolment).encode("utf-8")).hexdigest()
            self.enrolments[escalation] = {**enrolment, "input_sha256": digest, "counts": False}

    def vote_failure(self, escalation, record, event):
        name, passkey = event.get("reviewer"), event.get("passkey")
        if event.get("proof") == "late" and passkey is None:
            return None
        own = [one for one in self.passkeys if is_of(one, name, record)]
        if passkey is None:
            needs_none = any("public_key" not in one for one in own)
            return self.voter_failure(escalation, name, record) if needs_none else f"no passkey proves the vote of {name!r}"
        key = passkey["public_key"]
        confirmed = (one for one in self.enrolments.values() if one["counts"] and one["reviewer"] == name)
        if key not in [one.get("public_key") for one in (*own, *confirmed)]:
            return f"its passkey is not one of {name!r}"
        refused = self.voter_failure(escalation, name, record)
        if refused is not None:
            return refused
        enrolment = self.enrolments.get(escalation)
        is_of_it = enrolment is None or (enrolment["input_sha256"] == record["input_sha256"] and enrolment["reviewer"] != name)
        if event["vote"] == "approve" and is_of_it:
            self.approved.setdefault(escalation, set()).add(name)
        return None

    def decision_failure(self, escalation, findings):
        by = self.approved.get(escalation, set())
        if escalation in self.enrolments and by:
            self.enrolments[escalation]["counts"] = True
        first = findings[0] if isinstance(findings, list) and findings else None
        detail = first.get("detail") if isinstance(first, dict) else None
        stated = STATED.match(detail) if isinstance(detail, str) else None
        is_whole = not self.has_removals or escalation in self.opened
        if not is_whole or any("public_key" not in one for one in self.passkeys):
            return None
        return "it states more approvals than passkeys prove" if stated and int(stated[1]) > len(by) else None


def set_of(stated):
    """The approval set that a record states, None for none."""
    set_id = stated.get("approval_set_id")
    return set_id if isinstance(set_id, str) else None


def is_of(passkey, name, record):
    """Whether the passkey is one of the reviewer that the vote names."""
    if "user" not in passkey:
        return name == ADMIN
    principal = record.get("principal")
    by_id = isinstance(principal, dict) and principal.get("user_id") == passkey["user"]
    return by_id or (isinstance(name, str) and name.startswith(f"{passkey['user']} of "))


def read_reviewers(path):
    """The passkeys and the voters of a policy in JSON, or of its part `admin`; a ValueError says that there are none."""
    with open(path, encoding="utf-8-sig") as file:
        policy = parse_object(file.read()) or {}
    admin = policy.get("admin")
    passkeys = admin.get("passkeys") if isinstance(admin, dict) else None
    if not isinstance(passkeys, list) or not passkeys or not all(isinstance(one, dict) for one in passkeys):
        raise ValueError(f"{path} does not list passkeys under admin.passkeys, in JSON")
    rule = policy
    for member in ("security", "side_effects", "human_escalation"):
        rule = rule.get(member) if isinstance(rule, dict) else None
    return {
        "passkeys": passkeys,
        "approval_sets": admin.get("approval_sets"),
        "reviewer_roles": (admin.get("roles") or {}).get("reviewer"),
        "default_set": rule.get("approval_set_id") if isinstance(rule, dict) else None,
    }
