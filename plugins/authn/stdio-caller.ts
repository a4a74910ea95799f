// The caller over stdio: the program that started the gateway process, which sends no token.

import { type TrustedCaller, token } from '@svc/core'
import { defined } from '@svc/core/json'
import { z } from 'zod'

/** Bound if the client of the gateway is the program that started it, and nothing else can send it calls. */
export const stdioClient = token<true>('authn/StdioClient')

const name = z.string().min(1).max(256)

export const stdioCallerSchema = z
  .strictObject({
    tenant: name.optional().describe("Its tenant; default: the gateway's own."),
    user: name
      .optional()
      .describe('The user, as in `entitlements`; without one the caller is a service agent.'),
    client: name.optional().describe('The name of the service agent, or of the client of the user.'),
    roles: z.array(name).default([]).describe('Its roles.'),
    scopes: z.array(name).default([]).describe('Its scopes, if `oidc.scopes` requires some.'),
  })
  .refine(({ user, client }) => user !== undefined || client !== undefined, {
    message: 'names no caller; accepted is one with `user`, `client` or both',
  })
  .describe(
    'The caller of `svc stdio`, which sends no token. Without it that command signs its user in at the issuer of `oidc`. Calls over HTTP never have it.',
  )

export function stdioCallerOf(
  { tenant, user, client, roles, scopes }: z.output<typeof stdioCallerSchema>,
  ownTenant: string,
): TrustedCaller {
  return {
    identity: {
      tenant: tenant ?? ownTenant,
      authenticated: true,
      roles,
      ...defined({ user }),
      ...(scopes.length === 0 ? {} : { scopes }),
      ...(client === undefined ? {} : { client, ...(user === undefined ? { clientId: client } : {}) }),
    },
    scopes: new Set(scopes),
  }
}
