export { type BrokersConfig, brokersSchema } from './config.js'
export { type CredentialSource, credentialSource } from './credential-source.js'
export { brokersPlugin } from './plugin.js'
