// The keys in which two policies differ, and whether a known call shows what they change.
import { isDeepStrictEqual } from 'node:util'
import type { SectionEntry } from '@svc/core'
import { canonicalize } from '@svc/core/json'
import type { Policy } from '../../policy/config.js'
import { addressesOf } from '../../stdio/targets/config.js'
import { targetOf } from '../../upstream/target.js'
import { policyEntries } from '../judge/policy-entries.js'

type Path = SectionEntry['path']

/** A rule, a plan or a pattern that only one of the policies has, or that they have with different values. */
export interface ChangedEntry {
  readonly entry: SectionEntry
  readonly policy: Policy
}

/** Another key: which calls it decides about is not noted. */
export interface ChangedKey {
  readonly subject: string
  readonly detail: string
}

export interface ChangedKeys {
  readonly entries: readonly ChangedEntry[]
  readonly others: readonly ChangedKey[]
}

/** Keys of the host that decide on no call. */
const NEUTRAL: ReadonlySet<string> = new Set(['port', 'sec0Dir', 'notices', 'shadow'])

export function changedKeys(before: Policy, after: Policy): ChangedKeys {
  const names = [...new Set([...before.plugins, ...after.plugins].map(({ name }) => name))]
  const sections = names.filter((name) => !recordsOnly(name, before) && !recordsOnly(name, after))
  const walk = new SectionDifference(before, after)
  for (const name of sections) walk.compare(before.sections.get(name), after.sections.get(name), [name])
  return {
    entries: walk.entries,
    others: [
      ...walk.others,
      ...sections
        .filter((name) => isOtherPlugin(name, before, after))
        .map((name) => ({
          subject: name,
          detail: 'another plugin runs',
        })),
      ...orderChange(before, after),
      ...hostChanges(before, after),
    ],
  }
}

class SectionDifference {
  readonly entries: ChangedEntry[] = []
  readonly others: ChangedKey[] = []
  readonly #old: Side
  readonly #now: Side

  constructor(before: Policy, after: Policy) {
    this.#old = new Side(before)
    this.#now = new Side(after)
  }

  /** `owner`: the entries that the values are a part of. */
  compare(was: unknown, is: unknown, path: Path, owner: readonly ChangedEntry[] = []): void {
    if (isDeepStrictEqual(was, is)) return
    const entries = [...this.#old.entriesAt(path, was), ...this.#now.entriesAt(path, is)]
    const within = entries.length > 0 ? entries : owner
    if (Array.isArray(was ?? is) && Array.isArray(is ?? was)) this.#compareLists(was, is, path, within)
    else if (isMap(was) && isMap(is)) {
      for (const key of new Set([...Object.keys(was), ...Object.keys(is)]))
        this.compare(Reflect.get(was, key), Reflect.get(is, key), [...path, key], within)
    } else this.#replaced(was, is, path, within)
  }

  /** The order of a list of entries does not count. */
  #compareLists(was: unknown, is: unknown, path: Path, owner: readonly ChangedEntry[]): void {
    const [old, now] = [this.#old.items(was, path), this.#now.items(is, path)]
    if (old.length === 0 && now.length === 0) this.#replaced(was, is, path, owner)
    for (const item of old) if (!now.some(({ text }) => text === item.text)) this.entries.push(item.changed)
    for (const item of now) if (!old.some(({ text }) => text === item.text)) this.entries.push(item.changed)
  }

  /** A value is another, or is there in one of the policies alone. It counts as its entries where it has some. */
  #replaced(was: unknown, is: unknown, path: Path, owner: readonly ChangedEntry[]): void {
    const inner = [...this.#old.within(path, was), ...this.#now.within(path, is)]
    const changed = inner.length > 0 ? inner : owner
    if (changed.length > 0) this.entries.push(...changed)
    else {
      const detail = was === undefined ? 'added' : is === undefined ? 'removed' : 'changed'
      this.others.push({ subject: path.join('.'), detail })
    }
  }
}

interface ListItem {
  readonly text: string
  readonly changed: ChangedEntry
}

/** The entries of one of the policies, by their paths. */
class Side {
  readonly #policy: Policy
  readonly #entries: ReadonlyMap<string, SectionEntry>

  constructor(policy: Policy) {
    this.#policy = policy
    this.#entries = new Map(policyEntries(policy).map((entry) => [pathKey(entry.path), entry]))
  }

  entriesAt(path: Path, value: unknown): ChangedEntry[] {
    const entry = value === undefined ? undefined : this.#entries.get(pathKey(path))
    return entry === undefined ? [] : [{ entry, policy: this.#policy }]
  }

  /** The entries at and under the path. */
  within(path: Path, value: unknown): ChangedEntry[] {
    if (typeof value !== 'object' || value === null) return this.entriesAt(path, value)
    const own = this.entriesAt(path, value)
    const keys = Array.isArray(value) ? [...value.keys()] : Object.keys(value)
    return [...own, ...keys.flatMap((key) => this.within([...path, key], Reflect.get(value, key)))]
  }

  /** The items of a list of entries. */
  items(list: unknown, path: Path): ListItem[] {
    if (!Array.isArray(list)) return []
    return list.flatMap((item, index) =>
      this.entriesAt([...path, index], item).map((changed) => ({ text: canonicalize(item), changed })),
    )
  }
}

function pathKey(path: Path): string {
  return JSON.stringify(path)
}

function isMap(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Stages of these phases let every call pass. */
function recordsOnly(name: string, { plugins }: Policy): boolean {
  const phase = plugins.find((plugin) => plugin.name === name)?.phase
  return phase === 'record' || phase === 'redaction'
}

function isOtherPlugin(name: string, before: Policy, after: Policy): boolean {
  const of = ({ plugins }: Policy) => plugins.find((plugin) => plugin.name === name)
  const [old, now] = [of(before), of(after)]
  return old !== undefined && now !== undefined && old !== now
}

function orderChange(before: Policy, after: Policy): ChangedKey[] {
  const namesOf = ({ plugins }: Policy) => plugins.map(({ name }) => name)
  const inBoth = (some: string[], others: string[]) => some.filter((name) => others.includes(name))
  const [old, now] = [namesOf(before), namesOf(after)]
  return isDeepStrictEqual(inBoth(old, now), inBoth(now, old))
    ? []
    : [{ subject: 'pipeline', detail: 'the order changed' }]
}

function hostChanges({ host: before }: Policy, { host: after }: Policy): ChangedKey[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]) as Set<keyof Policy['host']>
  return [...keys].flatMap((key): ChangedKey[] => {
    if (key === 'targets') return targetChanges(before.targets, after.targets)
    return NEUTRAL.has(key) || isDeepStrictEqual(before[key], after[key])
      ? []
      : [{ subject: key, detail: 'changed' }]
  })
}

type Targets = Policy['host']['targets']

/** Calls show a server that is added or removed. */
function targetChanges(before: Targets, after: Targets): ChangedKey[] {
  const isMcp = (targets: Targets, server: string) => targetOf(addressesOf(targets)[server] ?? '').isMcp
  return Object.keys(before).flatMap((server): ChangedKey[] => {
    if (after[server] === undefined || isDeepStrictEqual(before[server], after[server])) return []
    const isSame = isMcp(before, server) === isMcp(after, server)
    return [
      { subject: `server ${server}`, detail: isSame ? 'another address or command' : 'another protocol' },
    ]
  })
}
