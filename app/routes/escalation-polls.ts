// Responds to GET /escalations/<id>: the status of an escalation, for the caller whose call opened it.
import type { IncomingHttpHeaders } from 'node:http'
import { type Ids, type Logger, resolveOptional, services } from '@svc/core'
import { normalized } from '@svc/core/match'
import { escalationService } from '@svc/plugin-enforcement'
import { callerView } from '../escalations/escalation-json.js'
import { notFound, withStoreRefusal } from '../escalations/reviewer-escalations.js'
import { errorResponse } from '../http/error-response.js'
import type { BufferedResponse } from '../http/response.js'
import type { ActivePolicy } from '../policy/active-policy.js'

/** Never rejects. The response to another tenant is that of an unknown id, so that ids stay secret. */
export async function respondToEscalationPoll(
  headers: IncomingHttpHeaders,
  id: string,
  policy: ActivePolicy,
  { ids, logger }: { readonly ids: Ids; readonly logger: Logger },
): Promise<BufferedResponse> {
  const traceId = ids.traceId()
  try {
    const view = await policy.hold(() => viewOf(headers, id, policy))
    return {
      status: 200,
      headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
      body: `${JSON.stringify(view)}\n`,
    }
  } catch (error) {
    return errorResponse(error, { traceId, logger, realm: 'svc' })
  }
}

async function viewOf(headers: IncomingHttpHeaders, id: string, policy: ActivePolicy): Promise<object> {
  policy.origins.check(headers)
  const identify = resolveOptional(policy.container, services.identify)
  const escalations = resolveOptional(policy.container, escalationService)
  if (identify === undefined || escalations === undefined) throw notFound()
  const find = () => withStoreRefusal(() => escalations.find(id))
  // A client of one MCP server may have a token for that server alone (RFC 8707).
  const { tenant } = await identify(headers, async (servers) => {
    const { server } = (await find()) ?? {}
    return server !== undefined && servers.has(normalized(server, 'NFC'))
  })
  const found = await find()
  if (found === undefined || found.tenant !== tenant) throw notFound()
  return callerView(found)
}
