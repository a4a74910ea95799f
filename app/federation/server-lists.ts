// Reads the lists of one server, to their last page.
import { isJsonObject } from '@svc/core/json'
import { listChanges } from '../mcp/change-notifications.js'
import { resultIn } from '../mcp/handshake.js'
import { readPages, type ServerList } from '../mcp/list-pages.js'
import { type ListKind, listForms } from '../mcp/listing.js'
import { rpcCodes } from '../mcp/protocol.js'
import type { Reply } from './server-calls.js'
import { ServerUnavailable } from './server-link.js'

export const listKinds = Object.keys(listForms) as ListKind[]

/** The lists that have changed according to a notification. */
export function listsChangedBy(notification: string): readonly ListKind[] {
  const change = listChanges.find(({ method }) => method === notification)
  return listKinds.filter((kind) => listForms[kind].capability === change?.capability)
}

/**
 * `member` of the result has the list; `ask` requests one page. A server without the method has an empty list. Rejects with
 * `ServerUnavailable`.
 */
export function readList(
  server: string,
  member: string,
  ask: (params: Readonly<Record<string, string>>) => Promise<Reply>,
): Promise<ServerList> {
  return readPages(member, async (params) => {
    const reply = await ask(params)
    const result = resultIn(reply)
    if (isMethodMissing(reply)) return { [member]: [] }
    if (!Array.isArray(result?.[member])) throw new ServerUnavailable(server, reply)
    return result
  })
}

/** Some servers have one list of a capability and not the other, such as resources without templates. */
function isMethodMissing({ response }: Reply): boolean {
  const error = response?.['error']
  return isJsonObject(error) && error['code'] === rpcCodes.methodNotFound
}
