export { type AuthnConfig, authnSchema, type OidcConfig } from './config.js'
export { HttpJwksSource, type JwksSource, jwksSource } from './jwks-source.js'
export { authnPlugin } from './plugin.js'
export { stdioClient } from './stdio-caller.js'
