// What became of an escalation, for the caller whose call opened it.
import type { IncomingHttpHeaders } from 'node:http'
import { type Ids, type Logger, services } from '@svc/core'
import { asked, notFound } from '../escalations/reviewer-escalations.js'
import { callerView } from '../escalations/view.js'
import type { WholeAnswer } from '../http/answer.js'
import { errorAnswer } from '../http/error-answer.js'
import type { ActivePolicy } from '../policy/active-policy.js'

export interface PollParts {
  readonly ids: Ids
  readonly logger: Logger
  /** The policy in force at this moment. */
  activePolicy(): ActivePolicy
}

export class EscalationPolls {
  #parts: PollParts

  constructor(parts: PollParts) {
    this.#parts = parts
  }

  /** Another tenant's is not there, so that nobody learns which ids are taken. */
  async answer(headers: IncomingHttpHeaders, id: string): Promise<WholeAnswer> {
    const traceId = this.#parts.ids.traceId()
    try {
      const view = await this.#find(headers, id)
      return {
        status: 200,
        headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
        body: `${JSON.stringify(view)}\n`,
      }
    } catch (fault) {
      return errorAnswer(fault, { traceId, logger: this.#parts.logger, realm: 'svc' })
    }
  }

  #find(headers: IncomingHttpHeaders, id: string): Promise<object> {
    const activePolicy = this.#parts.activePolicy()
    return activePolicy.hold(async () => {
      activePolicy.origins.check(headers)
      const identify = activePolicy.pipeline.offer(services.identify)
      const desk = activePolicy.pipeline.offer(services.escalations)
      if (identify === undefined || desk === undefined) throw notFound()
      const find = () => asked(() => desk.find(id))
      // A client of one MCP server may have a token for that server alone (RFC 8707).
      const { tenant } = await identify(headers, async (servers) => {
        const { server } = (await find()) ?? {}
        return server !== undefined && servers.has(server.normalize('NFC'))
      })
      const found = await find()
      if (found === undefined || found.tenant !== tenant) throw notFound()
      return callerView(found)
    })
  }
}
