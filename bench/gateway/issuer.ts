// The token issuer of the benchmarks: one ES256 key, its key set over HTTP, a token per user.
import { createServer, type Server } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { listen } from './listen.js'

export const AUDIENCE = 'svc-gateway'
export const TENANT = 'acme'

export interface Issuer {
  readonly url: string
  readonly tokens: readonly string[]
  close(): void
}

export async function startIssuer(users: number): Promise<Issuer> {
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const jwk = { ...(await exportJWK(publicKey)), kid: 'bench', alg: 'ES256', use: 'sig' }
  const server: Server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: [jwk] }))
  })
  const url = `http://127.0.0.1:${await listen(server)}`
  const tokens = await Promise.all(
    Array.from({ length: users }, (_, i) =>
      new SignJWT({ email: `user${i}@example.com`, org: TENANT, roles: ['finance', 'reader'] })
        .setProtectedHeader({ alg: 'ES256', kid: 'bench' })
        .setIssuer(url)
        .setAudience(AUDIENCE)
        .setSubject(`user-${i}`)
        .setIssuedAt()
        .setExpirationTime('6h')
        .sign(privateKey),
    ),
  )
  return { url, tokens, close: () => server.close() }
}
