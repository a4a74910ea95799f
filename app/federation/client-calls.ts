// The calls of servers for one request of a client: their challenges name the endpoint that the client uses, they are judged by
// what it can show, and their outcomes tell which servers respond.
import { type RequestedResource, requestedResource } from '@svc/core'
import type { ClientExchange } from '../http/client-exchange.js'
import { declaredModes, type ElicitationModes, noModes } from '../mcp/elicitation-modes.js'
import { takesEvents } from '../mcp/exchange.js'
import { isStateless } from '../mcp/protocol.js'
import type { ServerCalls } from './server-calls.js'
import type { ServerHealth } from './server-health.js'
import type { FederationSession } from './session.js'

interface Client {
  readonly exchange: ClientExchange
  readonly used: RequestedResource
  readonly session: FederationSession
  readonly health: ServerHealth
}

export function clientCalls(calls: ServerCalls, client: Client): ServerCalls {
  const { used, session, health } = client
  const modes = modesOf(client)
  return {
    ...calls,
    run: (request, respond) =>
      calls.run(
        {
          ...request,
          modes,
          onCall(call) {
            call.set(requestedResource, used)
            request.onCall?.(call)
          },
        },
        (call, outcome, encoding) => {
          health.observe(request.server, outcome)
          if (outcome.kind === 'completed') session.noteResponse(request.server)
          return respond(call, outcome, encoding)
        },
      ),
  }
}

function modesOf({ session, exchange: { headers, http } }: Client): ElicitationModes {
  const { capabilities, revision } = session.client
  const mayAsk = isStateless(revision) || takesEvents({ headers, isHeaderless: http === undefined })
  return mayAsk ? declaredModes(capabilities, revision) : noModes
}
