// The arguments of a recorded call, as far as its record keeps them. Reading what it does not have throws `Unrecorded`.
import { type KeptValues, Unrecorded } from '@svc/core'
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import type { CostBudget } from './call-scope.js'
import { CallScope, FoldedMembers } from './call-scope.js'
import { writtenPath } from './nodes.js'

type Names = readonly (string | number)[]

interface PartialObject {
  readonly names: Names
  /** Folded names of members that are known: the object has those that are there, under these names. */
  readonly known: Set<string>
}

class RecordedMembers extends FoldedMembers {
  readonly #partial = new Map<JsonObject, PartialObject>()

  /** An object of which no member is known. */
  create(names: Names): JsonObject {
    // Without a prototype, a member of any name is its own.
    const object: JsonObject = Object.create(null)
    this.#partial.set(object, { names, known: new Set() })
    return object
  }

  /**
   * Adds what was kept about the member at the path below the object; undefined if there is no value at the path, which
   * says that the last member is absent only if the object that would hold it is there.
   */
  add(object: JsonObject, [name, ...inner]: Names, value: JsonValue | undefined): void {
    const partial = this.#partial.get(object)
    // The other members of a list are not known, so a kept item does not help.
    if (partial === undefined || typeof name !== 'string' || typeof inner[0] === 'number') return
    const folded = foldName(name)
    if (inner.length === 0) {
      partial.known.add(folded)
      if (value !== undefined) object[folded] = value
      return
    }
    let { [folded]: within } = object
    if (!isJsonObject(within)) {
      if (value === undefined) return
      within = this.create([...partial.names, name])
      partial.known.add(folded)
      object[folded] = within
    }
    this.add(within, inner, value)
  }

  override namesOf(object: JsonObject): readonly string[] {
    const partial = this.#partial.get(object)
    return partial === undefined ? super.namesOf(object) : missing(partial.names)
  }

  override find(object: JsonObject, folded: string, budget: CostBudget): string | undefined {
    const partial = this.#partial.get(object)
    if (partial === undefined) return super.find(object, folded, budget)
    if (!partial.known.has(folded)) return missing([...partial.names, folded])
    return object[folded] === undefined ? undefined : folded
  }
}

function missing(names: Names): never {
  throw new Unrecorded([writtenPath(names)])
}

/** `namesOf` parses a path that was kept; undefined for a text that is not one. */
export function recordedInput(
  kept: KeptValues | undefined,
  namesOf: (path: string) => Names | undefined,
): { readonly scope: CallScope; readonly args: JsonObject; readonly params: JsonObject } {
  const members = new RecordedMembers()
  const [args, params] = [members.create(['args']), members.create(['params'])]
  const add = (path: string, value: JsonValue | undefined) => {
    const [root, ...names] = namesOf(path) ?? []
    const object = root === 'args' ? args : root === 'params' ? params : undefined
    if (object !== undefined) members.add(object, names, value)
  }
  for (const [path, value] of Object.entries(kept?.values ?? {})) add(path, value)
  for (const path of kept?.absent ?? []) add(path, undefined)
  return { scope: new CallScope(members), args, params }
}
