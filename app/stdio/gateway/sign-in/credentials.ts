// The token of the user of `svc stdio`: from the file, refreshed, or from a sign-in in the browser at the issuer of the
// policy.
import type { Logger, SignInIssuer } from '@svc/core'
import { isUrl, messageOf } from '@svc/core/json'
import { canonicalBase } from '../../../http/public-url.js'
import type { HostConfig } from '../../../policy/config.js'
import { userDirectory } from '../../../policy/user-directory.js'
import type { Credentials } from '../endpoint-session.js'
import type { SignIn } from './sign-in.js'
import { TokenFile, type Tokens } from './token-file.js'

/** A token that ends sooner is refreshed before it is used, in milliseconds. */
const minRemainingMs = 10_000

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
  const resource = isUrl(audience) ? audience : ownUrl
  return new UserCredentials({
    file: new TokenFile(userDirectory(env), [issuer, resource, clientId]),
    logger,
    now: Date.now,
    signIn: async () => {
      const { SignIn } = await import('./sign-in.js')
      return new SignIn({ issuer, clientId, resource, callbackPort, logger })
    },
  })
}

interface UserCredentialsOptions {
  readonly file: TokenFile
  readonly logger: Logger
  now(): number
  /** Called when the first token is needed. */
  signIn(): Promise<SignIn>
}

class UserCredentials implements Credentials {
  #options: UserCredentialsOptions
  #tokens: Tokens | undefined
  #renewing: Promise<void> | undefined

  constructor(options: UserCredentialsOptions) {
    this.#options = options
  }

  /** Undefined if the user must sign in: the gateway then says which scopes that needs. */
  async authorization(): Promise<string | undefined> {
    this.#tokens ??= await this.#options.file.read()
    if (this.#tokens !== undefined && !this.#isFresh(this.#tokens)) {
      await this.#once(async (kept) => kept && this.#refreshed(kept))
    }
    return this.#current()
  }

  async renew(challenge: string, refused: string | undefined): Promise<void> {
    if (refused !== this.#current()) return
    // A refreshed token has no more scopes than the one before.
    const mayRefresh = !challenge.includes('insufficient_scope')
    await this.#once(async (kept) => {
      const refreshed = mayRefresh && kept !== undefined ? await this.#refreshed(kept) : undefined
      return refreshed ?? (await this.#options.signIn()).tokens(scopesIn(challenge))
    })
  }

  #current(): string | undefined {
    return this.#tokens === undefined ? undefined : `Bearer ${this.#tokens.accessToken}`
  }

  /** Runs `obtain` once for all callers in this process and, one after the other, in others. */
  #once(obtain: (kept: Tokens | undefined) => Promise<Tokens | undefined>): Promise<void> {
    this.#renewing ??= this.#replace(obtain).finally(() => {
      this.#renewing = undefined
    })
    return this.#renewing
  }

  #replace(obtain: (kept: Tokens | undefined) => Promise<Tokens | undefined>): Promise<void> {
    const { file } = this.#options
    const old = this.#tokens?.accessToken
    return file.exclusively(async () => {
      // Another process may have signed the same user in meanwhile.
      const kept = await file.read()
      const isNew = kept !== undefined && kept.accessToken !== old && this.#isFresh(kept)
      this.#tokens = isNew ? kept : await obtain(kept)
      if (!isNew && this.#tokens !== undefined) await file.write(this.#tokens)
    })
  }

  /** The refreshed tokens; undefined if they cannot be refreshed. */
  async #refreshed(kept: Tokens): Promise<Tokens | undefined> {
    const { refreshToken } = kept
    if (refreshToken === undefined) return undefined
    try {
      return await (await this.#options.signIn()).refresh({ ...kept, refreshToken })
    } catch (error) {
      this.#options.logger.info({ reason: messageOf(error) }, 'the token was not refreshed')
      return undefined
    }
  }

  #isFresh({ expiresAt }: Tokens): boolean {
    return expiresAt === undefined || expiresAt - this.#options.now() > minRemainingMs
  }
}

/** The scopes of a challenge (RFC 6750 §3). */
function scopesIn(challenge: string): string[] {
  const [, scope = ''] = /\bscope="([^"]*)"/.exec(challenge) ?? []
  return scope.split(' ').filter(Boolean)
}
