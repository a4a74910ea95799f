// What operators may ask of a gateway over the admin listener.
import {
  type DefinitionReviews,
  type Identity,
  isRefusal,
  Refusal,
  type Reviewer,
  resolveOptional,
  services,
} from '@svc/core'
import type { DependencyContainer } from 'tsyringe'
import { z } from 'zod'
import { type Operation, operation } from '../admin/operation.js'
import { describeRefusal, type ReloadCause, type ReloadedPolicy } from './reload-records.js'

export function reloadOperation(reload: (cause: ReloadCause) => Promise<ReloadedPolicy>): Operation {
  return operation({
    method: 'POST',
    path: '/api/policy/reload',
    name: 'reload_policy',
    changes: true,
    body: z.strictObject({}),
    async run({ client }) {
      try {
        return await reload({ by: `admin API${describeToken(client)}`, user: userOf(client) })
      } catch (cause) {
        if (isRefusal(cause)) throw cause
        const message = `The policy is refused, and the one in force stays: ${describeRefusal(cause)}`
        throw new Refusal('BAD_REQUEST', message, { cause })
      }
    },
  })
}

/** `container` has the bindings of the policy in force. */
export function definitionOperations(container: () => DependencyContainer): Operation[] {
  const reviews = (): DefinitionReviews => {
    const found = resolveOptional(container(), services.definitionReviews)
    if (found !== undefined) return found
    throw new Refusal('TARGET_NOT_FOUND', 'The policy in force has no protections.definitions.')
  }
  return [
    operation({
      method: 'GET',
      path: '/api/definitions',
      name: 'list_definitions',
      changes: false,
      run: async () => ({ servers: await reviews().waiting() }),
    }),
    operation({
      method: 'POST',
      path: '/api/definitions/accept',
      name: 'accept_definitions',
      changes: true,
      body: z.strictObject({ server: z.string(), review: z.string() }),
      run: ({ client, body: { server, review } }) => reviews().accept(server, review, client),
    }),
  ]
}

/** `status` returns undefined if the policy in force names no shadow policy. */
export function shadowOperation(status: () => object | undefined): Operation {
  return operation({
    method: 'GET',
    path: '/api/policy/shadow',
    name: 'show_shadow',
    changes: false,
    async run() {
      const shadow = status()
      if (shadow !== undefined) return shadow
      throw new Refusal(
        'TARGET_NOT_FOUND',
        'The policy in force names no shadow policy (shadow: { policy: FILE }).',
      )
    },
  })
}

function describeToken({ kind }: Reviewer): string {
  return kind === 'admin' ? ', with the admin token' : ''
}

function userOf(client: Reviewer): Identity | undefined {
  return client.kind === 'user' ? client.identity : undefined
}
