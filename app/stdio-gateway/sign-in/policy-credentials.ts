// The credentials of the user of `svc stdio`, who signs in at the issuer of the policy.
import type { Logger, SignInIssuer } from '@svc/core'
import { canonicalBase } from '../../http/public-url.js'
import type { HostConfig } from '../../policy/config.js'
import type { Credentials } from '../endpoint-session.js'
import { UserCredentials } from './credentials.js'
import { openUrl } from './open-url.js'
import { TokenFile, userDirectory } from './token-file.js'

export interface SignInOptions {
  readonly callbackPort: number
  readonly logger: Logger
  readonly env: Readonly<Record<string, string | undefined>>
}

export function signInCredentials(
  { issuer, audience, clientId }: SignInIssuer,
  { server: { publicUrl } }: HostConfig,
  { callbackPort, logger, env }: SignInOptions,
): Credentials {
  const ownUrl = publicUrl === undefined ? undefined : canonicalBase(publicUrl)
  // The resource is the whole gateway, so that the user signs in once for all servers.
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
