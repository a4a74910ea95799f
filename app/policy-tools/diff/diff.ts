// Compares two policies by what the judge decides under each about the calls that are known: who may do more, and who less.
import { isPending, type SectionEntry } from '@svc/core'
import { patternsOf } from '@svc/core/policy'
import type { Policy } from '../../policy/config.js'
import type { NamedRequest } from '../judge/recorded-call.js'
import type { StagePlace } from '../judge/stages.js'
import { AccessJudge, type AccessVerdict } from './access-judge.js'
import { type ChangedEntry, changedKeys } from './changed-keys.js'
import { EVERY_CALLER, type KnownCaller, KnownRequests, type KnownTool, knownCallers } from './known-calls.js'
import { type ChangeEffect, type VerdictChange, verdictChanges } from './verdict-changes.js'

export interface PolicyChange extends VerdictChange {
  /** Absent: the change does not belong to one tenant. */
  readonly tenant?: string
  /** Who or what changes: a caller, a key of the policy. */
  readonly subject: string
  /** A call that shows the change, and how many do. */
  readonly example?: string
  readonly calls?: number
}

interface DiffSettings {
  readonly place: StagePlace
  /** Tools that a log, a lock file or a server has. */
  readonly tools?: readonly KnownTool[]
  readonly callers?: readonly KnownCaller[]
  /** Calls that are compared at most; then it says that there are more. */
  readonly maxCalls?: number
}

/** Others have their turn after this time. */
const SLICE_MS = 5

/** Calls that are judged at most to see which entries apply. */
const MAX_NOTED = 20_000

/** Rejects with what a plugin's `create` throws. */
export async function policyChanges(
  before: Policy,
  after: Policy,
  { place, tools = [], callers = [], maxCalls = Number.POSITIVE_INFINITY }: DiffSettings,
): Promise<PolicyChange[]> {
  const policies = [before, after] as const
  const [first, second] = await AccessJudge.startBoth(policies, place)
  await using old = first
  await using now = second
  const requests = new KnownRequests(policies, tools)
  const known = [...knownCallers(policies), ...callers]
  const all = known.slice(0, Math.floor(maxCalls / requests.all.length))
  const slices = new Slices()
  const changes = new Changes()
  for (const caller of all) {
    for (const request of requests.all) {
      const [was, is] = [old.verdictOn(caller, request), now.verdictOn(caller, request)]
      if (isPending(was) || isPending(is)) changes.add(caller, request, await was, await is)
      else changes.add(caller, request, was, is)
      if (slices.isOver()) await slices.next()
    }
  }
  const { entries, others } = changedKeys(before, after)
  const access = changes.all()
  const open = new OpenEntries(entries)
  const judges = new Map([old, now].map((judge) => [judge.policy, judge]))
  for (const { policy, caller, request } of callsThatMayShow(open, all, requests)) {
    await judges.get(policy)?.entriesFor(caller, request, (entry) => open.close(policy, entry))
    if (slices.isOver()) await slices.next()
  }
  // If no other key differs, the calls show what this one changes.
  const isShown = others.length === 1 && entries.length === 0 && access.length > 0
  const more: PolicyChange = { effect: 'unknown', subject: 'callers', detail: 'too many to compare all here' }
  return [
    ...access,
    ...open.changes(),
    ...(all.length < known.length ? [more] : []),
    ...(isShown ? [] : others.map((one) => ({ effect: 'unknown' as const, ...one }))),
  ]
}

/** Whether somebody may do more under the second policy: `undefined` if that is not known. */
export function somebodyGains(changes: readonly PolicyChange[]): boolean | undefined {
  const effects = new Set<ChangeEffect>(changes.map(({ effect }) => effect))
  if (effects.has('gain') || effects.has('wider')) return true
  return effects.has('unknown') ? undefined : false
}

class Slices {
  #start = performance.now()

  isOver(): boolean {
    return performance.now() - this.#start > SLICE_MS
  }

  async next(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    this.#start = performance.now()
  }
}

/** The changes of access, with the calls that show the same one of a caller together. */
class Changes {
  readonly #groups = new Map<KnownCaller, Map<string, { change: VerdictChange; references: Set<string> }>>()
  readonly #known = new WeakMap<AccessVerdict, WeakMap<AccessVerdict, readonly VerdictChange[]>>()

  add(caller: KnownCaller, { reference }: NamedRequest, was: AccessVerdict, is: AccessVerdict): void {
    for (const change of this.#between(was, is)) {
      const groups = this.#groups.get(caller) ?? new Map()
      this.#groups.set(caller, groups)
      const key = `${change.effect} ${change.detail}`
      const group = groups.get(key) ?? { change, references: new Set() }
      groups.set(key, group)
      group.references.add(reference)
    }
  }

  /** Without those of single callers that every caller of the tenant shares. */
  all(): PolicyChange[] {
    const ofAnyone = new Map(
      [...this.#groups]
        .filter(([{ subject }]) => subject === EVERY_CALLER)
        .map(([{ tenant }, groups]) => [tenant, groups]),
    )
    return [...this.#groups].flatMap(([{ tenant, subject }, groups]) =>
      [...groups].flatMap(([key, { change, references }]): PolicyChange[] => {
        const shared = subject === EVERY_CALLER ? undefined : ofAnyone.get(tenant)?.get(key)?.references
        if (shared !== undefined && [...references].every((one) => shared.has(one))) return []
        const [example = ''] = references
        return [{ ...change, tenant, subject, example, calls: references.size }]
      }),
    )
  }

  /** Callers share verdicts. */
  #between(was: AccessVerdict, is: AccessVerdict): readonly VerdictChange[] {
    const known = this.#known.get(was) ?? new WeakMap<AccessVerdict, readonly VerdictChange[]>()
    this.#known.set(was, known)
    const found = known.get(is) ?? verdictChanges(was, is)
    known.set(is, found)
    return found
  }
}

/** The changed entries that no call has shown to apply. */
class OpenEntries {
  readonly all: readonly ChangedEntry[]
  readonly #open: ReadonlyMap<Policy, Map<string, ChangedEntry>>

  constructor(all: readonly ChangedEntry[]) {
    this.all = all
    this.#open = new Map(all.map(({ policy }) => [policy, new Map()]))
    for (const one of all) this.#open.get(one.policy)?.set(keyOf(one.entry), one)
  }

  has({ policy, entry }: ChangedEntry): boolean {
    return this.#open.get(policy)?.has(keyOf(entry)) === true
  }

  close(policy: Policy, entry: SectionEntry): void {
    this.#open.get(policy)?.delete(keyOf(entry))
  }

  changes(): PolicyChange[] {
    return [...this.#open.values()].flatMap((entries) =>
      [...entries.values()].map(({ entry: { kind, name, path } }) => {
        const place = typeof path.at(-1) === 'number' ? path.slice(0, -1) : path
        const subject = `${place.join('.')}${place.at(-1) === name ? '' : ` ${name}`}`
        return { effect: 'unknown', subject, detail: `the ${kind} changed, and applies to no known call` }
      }),
    )
  }
}

function keyOf({ path }: SectionEntry): string {
  return JSON.stringify(path)
}

interface NotedCall {
  readonly policy: Policy
  readonly caller: KnownCaller
  readonly request: NamedRequest
}

/**
 * Yields for each open entry the calls that its patterns match: by the callers of the tenants that its path names, those whom it
 * names first, or by all callers if it names no tenant.
 */
function* callsThatMayShow(
  open: OpenEntries,
  callers: readonly KnownCaller[],
  requests: KnownRequests,
): Generator<NotedCall> {
  const byTenant = new Map<string, KnownCaller[]>()
  for (const caller of callers) {
    const own = byTenant.get(caller.tenant)
    if (own === undefined) byTenant.set(caller.tenant, [caller])
    else own.push(caller)
  }
  let left = MAX_NOTED
  for (const changed of open.all) {
    const { policy, entry } = changed
    const names = entry.path.filter((part) => typeof part === 'string')
    const isNamed = ({ subject }: KnownCaller) => names.some((part) => subject.endsWith(` ${part}`))
    const ofTenants = names.flatMap((part) => byTenant.get(part) ?? [])
    const ordered = ofTenants.length === 0 ? callers : [...ofTenants.filter(isNamed), ...ofTenants]
    const patterns = entry.kind === 'pattern' ? [entry.name] : patternsWithin(changed)
    const own = patterns.length === 0 ? requests.all.slice(0, 1) : patterns.flatMap((one) => requests.of(one))
    for (const caller of ordered)
      for (const request of own) {
        if (!open.has(changed)) break
        if (left-- === 0) return
        yield { policy, caller, request }
      }
  }
}

function patternsWithin({ entry: { path }, policy }: ChangedEntry): string[] {
  return patternsOf(policy)
    .filter((one) => path.every((part, at) => one.path[at] === part))
    .map(({ pattern }) => pattern)
}
