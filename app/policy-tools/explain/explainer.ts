// Says what decided a recorded call, with the text of the policy that was in force.
import { defined, visibleInLine } from '@svc/core/json'
import { type Locate, locateInText, policyValue } from '@svc/core/policy'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { keptPolicyFile, readKeptPolicy } from '@svc/plugin-audit/tools'
import { decidingEntries } from '@svc/plugin-entitlements'
import { findingKeys } from '@svc/plugin-security'

const MAX_LINES = 20
const MAX_WIDTH = 160
const HASH_DIGITS = 16

type Path = readonly (string | number)[]

interface ReadPolicy {
  readonly text: string
  readonly sha256: string
  readonly locate: Locate
  readonly value: unknown
}

/** An entry of a policy as it is written. */
export interface PolicyPlaceText {
  /** Counted from 1. */
  readonly line: number
  /** Its keys, such as `rules[2]`. */
  readonly path: string
  /** Its first lines, each with its number. */
  readonly lines: readonly string[]
}

/** The members of a record that name the deciding entry. */
interface DecidedRecord
  extends Pick<SignedEnvelope, 'tenant' | 'server' | 'tool' | 'principal' | 'decided_by' | 'policy_sha256'> {
  readonly findings?: readonly { readonly reason: string; readonly effect: string }[]
}

/** Keeps the policies that it has read. */
export class Explainer {
  #dir: string
  #policies = new Map<string, ReadPolicy | undefined>()

  constructor(dir: string) {
    this.#dir = dir
  }

  /** @param mark why the record cannot be trusted. */
  linesOf(record: SignedEnvelope, mark: string | undefined): string[] {
    const { ts, tenant, server, tool, policy, error, trace_id, decided_by } = record
    const marked = mark === undefined ? [] : [mark.toUpperCase()]
    const head = [
      ts,
      ...marked,
      policy.decision,
      tenant,
      `${server}/${tool}`,
      error ?? '',
      `trace ${trace_id}`,
    ]
    const { stage, ...what } = decided_by ?? {}
    const by = stage === undefined ? [] : [stage, ...Object.entries(what).map((one) => one.join(' '))]
    const details = (record.findings ?? []).map(({ reason, effect, detail }) =>
      [`${reason} (${effect})`, ...(detail === undefined ? [] : [detail])].join(': '),
    )
    return [
      head.filter((part) => part !== '').join('  '),
      ...(by.length === 0 ? [] : [`  decided by  ${by.join(', ')}`]),
      ...details.map((text) => `  finding     ${text}`),
      ...this.#policyLines(record),
    ].map(visibleInLine)
  }

  #policyLines(record: SignedEnvelope): string[] {
    const { policy_sha256: sha256, decided_by: decided } = record
    if (sha256 === undefined) return ['  policy      none, the gateway was configured in code']
    const policy = this.#policyOf(sha256)
    if (policy === undefined)
      return [`  policy      ${sha256.slice(0, HASH_DIGITS)}, which is not kept here, or was changed`]
    const file = keptPolicyFile(policy.sha256)
    const found = this.placeOf(record)
    if (found === undefined)
      return [`  policy      ${file}${decided === undefined ? '' : ', which does not mention it'}`]
    const { line, path, lines } = found
    return [`  policy      ${file}:${line}  ${path}`, ...lines.map((text) => `    ${text}`)]
  }

  /** The entry of the kept policy that decided the call. */
  placeOf(record: DecidedRecord): PolicyPlaceText | undefined {
    const { policy_sha256: sha256 } = record
    const policy = sha256 === undefined ? undefined : this.#policyOf(sha256)
    if (policy === undefined) return undefined
    for (const path of decidingPaths(record, policy.value)) {
      const { node, origin, path: written } = policy.locate(path)
      if (node === undefined || origin.line === undefined) continue
      return { line: origin.line, path: written, lines: linesFrom(policy.text, origin.line) }
    }
    return undefined
  }

  #policyOf(sha256: string): ReadPolicy | undefined {
    if (!this.#policies.has(sha256)) this.#policies.set(sha256, this.#read(sha256))
    return this.#policies.get(sha256)
  }

  #read(sha256: string): ReadPolicy | undefined {
    const text = readKeptPolicy(this.#dir, sha256)
    if (text === undefined) return undefined
    const value = policyValue(text)
    const base = baseOf(value)
    if (base !== undefined) return this.#policyOf(base)
    return { text, sha256, value, locate: locateInText(text, keptPolicyFile(sha256)) }
  }
}

/** The paths of what decided the call, the most exact first; a policy may not have them. `policy` is its value. */
function decidingPaths(record: DecidedRecord, policy: unknown): readonly Path[] {
  const decided = record.decided_by
  if (decided === undefined) return []
  const { stage, rule, approval, ...exact } = decided
  const escalated = (record.findings ?? []).filter(({ effect }) => effect === 'escalate')
  const reasons = approval === undefined ? [rule ?? ''] : escalated.map(({ reason }) => reason)
  return [...reasons.flatMap((reason) => pathsOf(record, policy, { ...exact, rule: reason })), [stage]]
}

function pathsOf(
  { tenant, server, tool, principal }: DecidedRecord,
  policy: unknown,
  { rule, ...exact }: { readonly rule: string; readonly pattern?: string; readonly limit?: string },
): readonly Path[] {
  const key = Object.hasOwn(findingKeys, rule) ? findingKeys[rule] : undefined
  if (key !== undefined) return [key]
  const rules = memberOf(policy, 'rules')
  const index = Array.isArray(rules) ? rules.findIndex((one) => rule === `rule:${memberOf(one, 'name')}`) : -1
  if (index >= 0) return [['rules', index]]
  const { user, user_id: userId, client_id: clientId, roles = [], node_id: nodeId } = principal ?? {}
  const caller = { roles, ...defined({ user, userId, clientId, nodeId }) }
  const reference = `mcp://${server.slice(0, server.lastIndexOf('@'))}/${tool}`
  return decidingEntries(memberOf(policy, 'entitlements'), { tenant, caller, reference, rule, ...exact })
}

/** The policy to which `svc stdio` added a command. */
function baseOf(policy: unknown): string | undefined {
  const base = memberOf(policy, 'policy_sha256')
  return typeof base === 'string' ? base : undefined
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined
}

/** The line of an entry, and those below it that are indented further, with their numbers. */
function linesFrom(text: string, first: number): string[] {
  const lines = text.split('\n')
  const start = lines[first - 1] ?? ''
  const indent = indentOf(start)
  const next = lines.findIndex(
    (line, index) => index >= first && line.trim() !== '' && indentOf(line) <= indent,
  )
  const all = lines.slice(first - 1, next < 0 ? undefined : next)
  while (all.length > 1 && /^\s*(#|$)/.test(all.at(-1) ?? '')) all.pop()
  const width = String(first + all.length).length
  const shown = all
    .slice(0, MAX_LINES)
    .map((line, index) => `${String(first + index).padStart(width)} | ${cut(line.replace(/\r$/, ''))}`)
  return all.length > MAX_LINES ? [...shown, `… ${all.length - MAX_LINES} more lines`] : shown
}

/** A list may stand at the indentation of its key. */
function indentOf(line: string): number {
  return line.search(/\S|$/)
}

function cut(line: string): string {
  return line.length > MAX_WIDTH ? `${line.slice(0, MAX_WIDTH)}…` : line
}
