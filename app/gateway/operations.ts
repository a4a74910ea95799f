// What operators may ask of a gateway over the admin listener.
import { type Identity, isRefusal, Refusal, type Reviewer } from '@svc/core'
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

function describeToken({ kind }: Reviewer): string {
  return kind === 'admin' ? ', with the admin token' : ''
}

function userOf(client: Reviewer): Identity | undefined {
  return client.kind === 'user' ? client.identity : undefined
}
