// What became of an escalation, for the caller whose call opened it.
import type { IncomingHttpHeaders } from 'node:http'
import { type Ids, type Logger, services } from '@svc/core'
import { callersView } from '../admin/escalation-view.js'
import { asked, notFound } from '../admin/escalations.js'
import type { Generation } from '../gateway/generation.js'
import type { WholeAnswer } from './answer.js'
import { faultAnswer } from './fault-answer.js'

export interface PollParts {
  readonly ids: Ids
  readonly logger: Logger
  /** The policy in force at this moment. */
  generation(): Generation
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
      return faultAnswer(fault, { traceId, logger: this.#parts.logger, realm: 'svc' })
    }
  }

  #find(headers: IncomingHttpHeaders, id: string): Promise<object> {
    const generation = this.#parts.generation()
    return generation.hold(async () => {
      generation.origins.check(headers)
      const identify = generation.pipeline.offer(services.identify)
      const service = generation.pipeline.offer(services.escalations)
      if (identify === undefined || service === undefined) throw notFound()
      const find = () => asked(() => service.find(id))
      // A client of one MCP server may have a token for that server alone (RFC 8707).
      const { tenant } = await identify(headers, async (servers) => {
        const { server } = (await find()) ?? {}
        return server !== undefined && servers.has(server.normalize('NFC'))
      })
      const found = await find()
      if (found === undefined || found.tenant !== tenant) throw notFound()
      return callersView(found)
    })
  }
}
