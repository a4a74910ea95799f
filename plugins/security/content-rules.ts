// The rules on strings in a call's arguments, and their findings.
import type { CallRequest, Finding } from '@svc/core'
import { isJsonObject, type JsonValue, shownPath } from '@svc/core/json'
import type { SecurityConfig } from './config.js'
import { forEachString, type ScanCounter } from './content/strings.js'
import { EgressAllowlist } from './egress/patterns.js'
import { EgressRule } from './egress/rule.js'
import { finding } from './findings.js'
import { FsAllowlist, parseRoot } from './fs/patterns.js'
import { FsRule } from './fs/rule.js'

export interface ContentRule {
  /** Reason token of its findings. */
  readonly reason: string
  /** The section's key that configures the rule. */
  readonly key: string
  readonly rule: {
    /** The patterns as configured. */
    readonly sources: readonly string[]
    /** The reason for which the rule refuses a string with these key flags; undefined if it allows the string. */
    violation(text: string, flags: number, counter: ScanCounter): string | undefined
  }
}

/** Limit per reason, so that a hostile caller cannot grow the record. */
const MAX_FINDINGS = 8

/**
 * Strings of one call that are checked. A body of a few MiB has a million, and each may be decoded and parsed several
 * times.
 */
const MAX_CHECKED = 20_000

/** Maximum length of a text that `isPlain` reads. */
const MAX_PLAIN = 2048

/**
 * Neither a URL nor a path, however often it is decoded: it has no escape, does not begin with a scheme, a drive, a
 * slash, a dot or a tilde, and no character at its start is folded to one of them.
 */
const PLAIN =
  /^(?:(?![A-Za-z][A-Za-z0-9+.-]*:)[\p{L}\p{N}"'(<[{*#@&$!?=+_-](?:[\p{L}\p{N} !-$&-9;-~][^%\p{Cc}]*)?)?$/u

function isPlain(text: string): boolean {
  return text.length <= MAX_PLAIN && PLAIN.test(text)
}

/** Compiles a rule for each configured allowlist. */
export function contentRules({ egress_allowlist, fs_allowlist, fs_root }: SecurityConfig): ContentRule[] {
  const rules: ContentRule[] = []
  if (egress_allowlist !== undefined) {
    const rule = new EgressRule(new EgressAllowlist(egress_allowlist), fs_allowlist !== undefined)
    rules.push({ reason: 'egress_violation', key: 'egress_allowlist', rule })
  }
  if (fs_allowlist !== undefined) {
    const base = fs_root === undefined ? undefined : parseRoot(fs_root)
    const rule = new FsRule(new FsAllowlist(fs_allowlist, base))
    rules.push({ reason: 'fs_violation', key: 'fs_allowlist', rule })
  }
  return rules
}

/** The responses of a client in a request that is not about a reference. */
function responsesIn(method: string | undefined, args: JsonValue): JsonValue | undefined {
  return method === 'tasks/update' && isJsonObject(args) ? args['inputResponses'] : undefined
}

/** Schemes that a server may fetch or open, alone or as a part: `git+https`. A single letter is a drive. */
const FETCHED = /^(?:(?:.*[+.-])?(?:https?|wss?|s?ftps?|file)(?:[+.-].*)?|.)$/i
/** Also nested ones: `jar:file:`. */
const SCHEMES = /^(?:[a-z][a-z0-9+.-]*:)+/i

/**
 * Whether a URI with a scheme of the server's own, such as `demo://` or `ui://`, names something at the server, which
 * opens nothing else for it: the resource of a request, or a root of the client in a response or an `inputResponses`.
 */
function isNameAtServer(
  text: string,
  path: readonly (string | number)[],
  { kind, method }: Pick<CheckedRequest, 'kind' | 'method'>,
): boolean {
  if (path.at(-1) !== 'uri') return false
  const ofResource = kind === 'resource' && path.length === 1
  const ofRoot = path.at(-3) === 'roots' && (isResult(path, method) || isInputResponse(path, method))
  const [schemes] = (ofResource || ofRoot ? SCHEMES.exec(text) : undefined) ?? []
  return (
    schemes !== undefined &&
    !schemes
      .slice(0, -1)
      .split(':')
      .some((scheme) => FETCHED.test(scheme))
  )
}

function isResult(path: readonly (string | number)[], method: string | null | undefined): boolean {
  return method === null && path.length === 4 && path[0] === 'result'
}

function isInputResponse(path: readonly (string | number)[], method: string | null | undefined): boolean {
  if (method === 'tasks/update') return path.length === 4
  return path.length === 6 && path[0] === 'params' && path[1] === 'inputResponses'
}

type CheckedRequest = Pick<CallRequest, 'kind' | 'args'> & Partial<Pick<CallRequest, 'method' | 'params'>>

/**
 * Findings in the order of the arguments. Past eight of one reason, one more finding gives the number of the others, and
 * another one says if not all strings were checked. Of protocol messages only a client's response, which has no method,
 * and the responses in an update of a task are checked: a tool may have requested them.
 */
export function checkContent(
  request: CheckedRequest,
  rules: readonly ContentRule[],
  counter: ScanCounter = { characters: 0 },
): Finding[] {
  const { kind, args, method, params } = request
  const checkedArgs = kind === 'protocol' && method !== null ? responsesIn(method, args) : args
  if (checkedArgs === undefined || rules.length === 0) return []
  const counts = rules.map(() => 0)
  const findings: Finding[] = []
  let checked = 0
  const visit = (text: string, flags: number, path: readonly (string | number)[]): void => {
    if ((flags === 0 && isPlain(text)) || isNameAtServer(text, path, request) || ++checked > MAX_CHECKED)
      return
    for (const [i, { reason, rule }] of rules.entries()) {
      const violation = rule.violation(text, flags, counter)
      if (violation === undefined) continue
      const count = (counts[i] ?? 0) + 1
      counts[i] = count
      if (count <= MAX_FINDINGS) findings.push(finding(reason, `${shownPath(path)} ${violation}`))
    }
  }
  forEachString(checkedArgs, visit)
  if (params !== undefined) forEachString({ params }, visit)
  for (const [i, { reason }] of rules.entries()) {
    if (checked > MAX_CHECKED)
      findings.push(
        finding(reason, `too many strings may be URLs or paths: at most ${MAX_CHECKED} are checked`),
      )
    const more = (counts[i] ?? 0) - MAX_FINDINGS
    if (more > 0) findings.push(finding(reason, `${more} more in the arguments`))
  }
  return findings
}
