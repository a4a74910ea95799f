export { type CredentialSource, credentialSource } from './broker.js'
export { type BrokersConfig, brokersSchema } from './config.js'
export { brokersPlugin } from './plugin.js'
