// What stores share, whatever keeps their data.

export { AnswerDeadline, atOnce } from './answer-deadline.js'
export { checkRedisSettings, checkStoreChoice, redisSettings, redisUrl } from './redis/settings.js'
