export { authnSchema } from './config.js'
export { type JwksSource, jwksSource } from './jwks-source.js'
export { authnPlugin } from './plugin.js'
export { stdioClient } from './stdio-caller.js'
