export { type CredentialSource, credentialSource } from './broker.js'
export { brokersPlugin } from './plugin.js'
