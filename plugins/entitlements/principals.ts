// The grants of one section of a tenant, such as `users`, by the names of callers that their keys match.
import { type NameMatch, NamePatterns } from '@svc/core/match'
import { BoundedMap } from '@svc/core/store'
import type { PrincipalConfig } from './config.js'
import { type Grant, keySuffixOf, type PrincipalSection, principalGrant, restrictionsOf } from './grant.js'

/** Callers choose some names, such as that of a node. */
const MAX_NAMES = 1024
const MAX_NAME_LENGTH = 256

/** The grants of a key or a name in their forms. */
interface Forms<T> {
  readonly full: T
  /** Without what they allow. */
  readonly restricting: T
  /** The same for keys that match a name only folded: their limits never replace others. */
  readonly folded: T
}

/** In each list first the grants whose keys match as they are written; of those the most specific first. */
export type NamedGrants = Forms<readonly Grant[]>

const NONE: NamedGrants = { full: [], restricting: [], folded: [] }

export class Principals {
  readonly size: number
  readonly #section: PrincipalSection
  readonly #keys: NamePatterns
  readonly #forms: ReadonlyMap<string, Forms<Grant>>
  readonly #found = new BoundedMap<string, NamedGrants>(MAX_NAMES)

  constructor(
    tenant: string,
    section: PrincipalSection,
    principals: Readonly<Record<string, PrincipalConfig>> = {},
  ) {
    const keys = Object.keys(principals)
    this.#section = section
    this.#keys = new NamePatterns(keys)
    this.size = keys.length
    this.#forms = new Map(
      Object.entries(principals).map(([key, config]) => [
        key,
        formsOf(principalGrant(tenant, section, key, config)),
      ]),
    )
  }

  of(name: string): NamedGrants {
    const known = this.#found.get(name)
    if (known !== undefined) return known
    const matches = this.#keys.match(name)
    const found = matches.length === 0 ? NONE : this.#grantsOf(name, matches)
    if (name.length <= MAX_NAME_LENGTH) this.#found.set(name, found)
    return found
  }

  #grantsOf(name: string, matches: readonly NameMatch[]): NamedGrants {
    const forms = matches.flatMap(({ key, isWritten }) => {
      const shared = this.#forms.get(key)
      if (shared === undefined) return []
      // Each name is counted by itself. Grants without limits are shared, as combinations of grants are cached.
      const isCounted = shared.full.perTool !== undefined && key !== name
      const own = isCounted
        ? formsOf({ ...shared.full, keySuffix: keySuffixOf(this.#section, name) })
        : shared
      return isWritten ? own : { full: own.folded, restricting: own.folded, folded: own.folded }
    })
    return listsOf(forms)
  }
}

/** The principals of a tenant to which several entries apply. */
export class JoinedPrincipals {
  readonly size: number
  readonly #parts: readonly (readonly [keyof NamedGrants, Principals])[]

  /** `parts` are in the order of their specificity, with the form in which each applies. */
  constructor(parts: readonly (readonly [keyof NamedGrants, Principals])[]) {
    this.#parts = parts.filter(([, { size }]) => size > 0)
    this.size = this.#parts.length
  }

  of(name: string): NamedGrants {
    const forms = this.#parts.flatMap(([form, principals]) => {
      const { full, restricting, folded } = principals.of(name)
      const applied = { full, restricting, folded }[form]
      return applied.map((grant, i) => ({
        full: grant,
        restricting: (form === 'full' ? restricting : applied)[i] ?? grant,
        folded: folded[i] ?? grant,
      }))
    })
    return listsOf(forms.sort((a, b) => Number(a.full.isFolded ?? false) - Number(b.full.isFolded ?? false)))
  }
}

function listsOf(forms: readonly Forms<Grant>[]): NamedGrants {
  return {
    full: forms.map(({ full }) => full),
    restricting: forms.map(({ restricting }) => restricting),
    folded: forms.map(({ folded }) => folded),
  }
}

function formsOf(full: Grant): Forms<Grant> {
  const restricting = restrictionsOf(full)
  return { full, restricting, folded: { ...restricting, isFolded: true } }
}
