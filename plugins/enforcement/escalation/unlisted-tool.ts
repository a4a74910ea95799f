// Refuses a call of a tool that its server does not list, before people are asked about it: they cannot tell a misspelt name
// from that of a tool they do not know.
import { type Call, type CallRequest, type Denied, denied, requestReference, type ToolLists } from '@svc/core'
import { ReferenceInputError } from '@svc/core/match'
import { nearestWords } from '@svc/core/policy'

export const unlistedReason = 'tool_not_listed'

/** Similar names in the message. */
const MAX_NAMES = 3

/** Undefined if the tool is listed, or if that is not known. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
export async function refusalOfUnlisted(call: Call, lists: ToolLists): Promise<Denied | undefined> {
  const request = await call.request()
  if (request.kind !== 'tool') return undefined
  const listed = await lists(request.server, request.name)
  if (listed === undefined) return undefined
  const similar: string[] = []
  for (const name of nearestWords(request.name, listed)) {
    if (similar.length === MAX_NAMES) break
    if (mayRequest(call, { ...request, name })) similar.push(`"${name}"`)
  }
  const hint = similar.length === 0 ? '' : ` Similar names that it lists: ${similar.join(', ')}.`
  return denied(
    'TOOL_NOT_ALLOWED',
    `The server "${request.server}" does not list a tool "${request.name}", so nobody was asked about the call, and it was not sent.${hint} If the server has the tool now, list its tools again, then repeat the call.`,
    { denial: { level: 'gateway', type: 'enforcement', reason: unlistedReason } },
  )
}

/** Whether the caller may know of the tool. */
function mayRequest(call: Call, tool: Pick<CallRequest, 'kind' | 'server' | 'name' | 'version'>): boolean {
  try {
    return call.mayRequest(requestReference(tool), 'tool')
  } catch (error) {
    // No call can name such a tool.
    if (error instanceof ReferenceInputError) return false
    throw error
  }
}
