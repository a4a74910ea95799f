// Removes from lists and handshakes what a stage that knows definitions withholds from the caller.
import { type Call, type DefinitionKind, definitionFilter, type ReceivedDefinition } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { type ListKind, listForms } from './listing.js'
import type { Fields } from './rpc-response.js'

/** Lists whose entries are definitions; the entries of `resources` are data. */
const kinds: readonly (readonly [member: ListKind, kind: DefinitionKind])[] = [
  ['tools', 'tool'],
  ['prompts', 'prompt'],
  ['resourceTemplates', 'template'],
]

interface Place {
  readonly member: ListKind
  readonly entry: unknown
  readonly definition: ReceivedDefinition
}

/** Returns the same object if nothing is withheld. */
export async function withKnownEntries(result: Fields, call: Call): Promise<Fields> {
  const filter = call.get(definitionFilter)
  if (filter === undefined) return result
  const places = kinds.flatMap(([member, kind]) => {
    const entries: unknown = result[member]
    return Array.isArray(entries) ? entries.flatMap((entry: unknown) => placeOf(member, kind, entry)) : []
  })
  if (places.length === 0) return result
  const shown = await filter.mayShow(
    call,
    places.map(({ definition }) => definition),
  )
  const withheld = new Set(places.flatMap(({ entry }, index) => (shown[index] === true ? [] : [entry])))
  if (withheld.size === 0) return result
  const members = new Set(places.map(({ member }) => member))
  const kept = [...members].map((member) => {
    const entries: unknown = result[member]
    return [member, Array.isArray(entries) ? entries.filter((entry) => !withheld.has(entry)) : entries]
  })
  return { ...result, ...Object.fromEntries(kept) }
}

function placeOf(member: ListKind, kind: DefinitionKind, entry: unknown): Place[] {
  const { nameMember } = listForms[member]
  if (!isJsonObject(entry)) return []
  const name = entry[nameMember]
  return typeof name === 'string' ? [{ member, entry, definition: { kind, name, value: entry } }] : []
}

/** A handshake is recognised by its member, as a response that is replayed does not name its method. */
export async function withKnownInstructions(result: unknown, call: Call): Promise<unknown> {
  const filter = call.get(definitionFilter)
  if (filter === undefined || !isJsonObject(result)) return result
  const { instructions, ...others } = result
  if (instructions === undefined) return result
  const [isShown] = await filter.mayShow(call, [{ kind: 'instructions', name: '', value: instructions }])
  return isShown === true ? result : others
}
