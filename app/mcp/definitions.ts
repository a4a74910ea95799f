// Removes from lists and handshakes what a stage that knows definitions withholds from the caller.
import type { Call, DefinitionFilter, MaybePromise, ReceivedDefinition } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { isListing, type ListKind, listForms } from './listing.js'
import type { Fields } from './rpc-response.js'

/** The kinds of the entries of lists. */
const kinds: Readonly<Record<ListKind, ReceivedDefinition['kind']>> = {
  tools: 'tool',
  prompts: 'prompt',
  resources: 'resource',
  resourceTemplates: 'template',
}
const members = Object.keys(kinds) as ListKind[]

/**
 * Returns the same object if nothing is withheld. A result is recognised by its members, whatever its method: a response that
 * is replayed does not name it. `digest` is that of the result, if it is known.
 */
export async function withKnownDefinitions(
  call: Call,
  result: Fields,
  filter: DefinitionFilter,
  digest: () => MaybePromise<string | undefined>,
): Promise<Fields> {
  if (!isListing(result) && result['instructions'] === undefined) return result
  let found: readonly ReceivedDefinition[] | undefined
  const definitions = () => (found ??= definitionsIn(result))
  const withheld = await filter.withheld(call, { sha256: await digest(), definitions })
  if (withheld.size === 0) return result
  const values = new Set(Array.from(withheld, ({ value }) => value))
  const kept = members.flatMap((member) => {
    const entries: unknown = result[member]
    return Array.isArray(entries) ? [[member, entries.filter((entry) => !values.has(entry))] as const] : []
  })
  const { instructions, ...others } = result
  const isTold = 'instructions' in result && !values.has(instructions)
  return { ...(isTold ? result : others), ...Object.fromEntries(kept) }
}

function definitionsIn(result: Fields): ReceivedDefinition[] {
  const { instructions } = result
  const listed = members.flatMap((member) => {
    const entries: unknown = result[member]
    const { nameMember } = listForms[member]
    return (Array.isArray(entries) ? entries : []).flatMap((value: unknown): ReceivedDefinition[] => {
      const name = isJsonObject(value) ? value[nameMember] : undefined
      return typeof name === 'string' ? [{ kind: kinds[member], name, value }] : []
    })
  })
  return instructions === undefined
    ? listed
    : [...listed, { kind: 'instructions', name: '', value: instructions }]
}
