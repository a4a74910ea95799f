// Decides by the policy whether the user of `svc stdio` signs in, and for what.
import type { Logger } from '@svc/core'
import { z } from 'zod'
import type { Policy } from '../../gateway/builder.js'
import { canonicalBase } from '../../http/public-url.js'
import type { Credentials } from '../endpoint-session.js'
import { UserCredentials } from './credentials.js'
import { openUrl } from './open-url.js'
import { TokenFile, userDirectory } from './token-file.js'

/** Of a section `authn` that signs users in. */
const signInSection = z.object({
  oidc: z.object({
    issuer: z.string(),
    audience: z.string(),
    publicClientId: z.string().optional(),
  }),
  stdioCaller: z.undefined().optional(),
})

export interface SignInOptions {
  readonly callbackPort: number
  readonly logger: Logger
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Undefined where the policy says who the caller is, or has no issuer. */
export function policyCredentials(policy: Policy, options: SignInOptions): Credentials | undefined {
  const section = signInSection.safeParse(policy.sections.get('authn'))
  if (!section.success) return undefined
  const { callbackPort, logger, env } = options
  const { issuer, audience, publicClientId: clientId } = section.data.oidc
  const { publicUrl } = policy.host.server
  const ownUrl = publicUrl === undefined ? undefined : canonicalBase(publicUrl)
  // For the whole gateway, so that the user signs in once for all servers.
  const resource = URL.canParse(audience) ? audience : ownUrl
  return new UserCredentials({
    file: new TokenFile(userDirectory(env), [issuer, resource, clientId]),
    logger,
    now: Date.now,
    signIn: async () => {
      const { SignIn } = await import('./sign-in.js')
      return new SignIn({ issuer, clientId, resource, callbackPort, logger, openUrl })
    },
  })
}
