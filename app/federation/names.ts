// The names under which tools and prompts of several servers are listed. They have the form that model APIs accept: 1 to 64
// letters, digits, underscores and hyphens. Another name is shortened and ends with a hash of its server and name.
import { sha256Hex } from '@svc/core/json'

export type PrefixMode = 'always' | 'conflict' | 'never'

/** The server of an entry, and the entry's name or URI there. */
export interface EntrySource {
  readonly server: string
  readonly name: string
}

const SEPARATOR = '__'
const maxLength = 64
const hashLength = 16

const fits = /^[A-Za-z0-9_-]{1,64}$/
/** A server's name without a separator or half of one, so that the first separator of a listed name ends it. */
const serverFits = /^[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*$/
const hashed = new RegExp(`_[0-9a-f]{${hashLength}}$`)

/** `server__name`, or its shortened form, which does not contain `__`. It is unique for each source. */
export function prefixedName(source: EntrySource): string {
  const plain = `${source.server}${SEPARATOR}${source.name}`
  return serverFits.test(source.server) && fits.test(plain) ? plain : shortenedName(source)
}

/** The source of a `server__name` that is not shortened; undefined for other names. */
export function sourceOfPrefixed(listed: string): EntrySource | undefined {
  const at = listed.indexOf(SEPARATOR)
  if (at < 1) return undefined
  const source = { server: listed.slice(0, at), name: listed.slice(at + SEPARATOR.length) }
  return prefixedName(source) === listed ? source : undefined
}

/** The name alone, if it fits and cannot be read as a prefixed or shortened one. */
export function bareName(source: EntrySource): string {
  const { name } = source
  return fits.test(name) && !name.includes(SEPARATOR) && !hashed.test(name) ? name : prefixedName(source)
}

/** The readable characters of the name, and 64 bits of a hash. */
function shortenedName({ server, name }: EntrySource): string {
  const readable = `${server}_${name}`.replace(/[^A-Za-z0-9-]+/g, '_').slice(0, maxLength - hashLength - 1)
  const hash = sha256Hex(JSON.stringify([server, name])).slice(0, hashLength)
  return `${readable.replace(/_$/, '')}_${hash}`
}

/** Several sources have one listed name. */
export class NameConflict extends Error {
  override readonly name = 'NameConflict'

  constructor(
    readonly listed: string,
    readonly servers: readonly string[],
  ) {
    super(`"${listed}" is a name at ${servers.join(' and ')}`)
  }
}

/** Whether a list is needed to find the source of a client's name. */
export function needsList(listed: string, mode: PrefixMode): boolean {
  return mode !== 'always' || hashed.test(listed)
}

/**
 * The listed name of each source; the same one again if a server lists a name twice.
 *
 * @throws {NameConflict} in the mode `never`
 */
export function listedNames(sources: readonly EntrySource[], mode: PrefixMode): string[] {
  if (mode === 'always') return sources.map(prefixedName)
  const servers = new Map<string, Set<string>>()
  for (const source of sources) {
    const bare = bareName(source)
    servers.set(bare, (servers.get(bare) ?? new Set()).add(source.server))
  }
  return sources.map((source) => {
    const bare = bareName(source)
    const named = servers.get(bare) ?? new Set()
    if (named.size === 1) return bare
    if (mode === 'never') throw new NameConflict(bare, [...named])
    return prefixedName(source)
  })
}
